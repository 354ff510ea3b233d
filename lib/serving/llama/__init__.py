"""llama.cpp's server out of the wheel ``xllamacpp``: its settings, and one for a while."""
