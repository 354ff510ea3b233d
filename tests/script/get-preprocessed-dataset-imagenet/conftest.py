"""Makes the programs of the script importable by each other, as they are when they run."""

import sys

import benchmark_lab as lab

sys.path.insert(0, str(lab.PREPROCESS.parent))
