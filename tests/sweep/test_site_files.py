"""Sites: a file in place of flags, its faults with their lines, and what ``--site`` makes of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cmbench.errors import Error
from cmbench_sweep.execution_flags import execution_site
from cmbench_sweep.hosts import SshSite, before_worker
from cmbench_sweep.job_containers import JobContainer
from cmbench_sweep.kept_secrets import refuse_secrets
from cmbench_sweep.remote import fetched
from cmbench_sweep.site_files import KEYS, OF_SITE, read_site
from common.python_path import VARIABLE
from support import ROOT, Finished, Home

SITE = """\
description: A cluster
scheduler: slurm
options: {account: mlperf, time: "30", licenses: "a,b", contiguous: true}
modules: [gcc/12]
environment: {OMP_PROC_BIND: close, PATH: "/opt/x:$PATH"}
partitions:
  cpu: {throttle: 4, share_nodes: true}
  gpu:
    description: four GPUs
    options: {partition: a100, gres: "gpu:4", time: 1-00:00:00}
    modules: [cuda]
    setup: ["ulimit -c 0"]
    container: {runtime: pyxis, image: ./image.sqsh}
    folder: $TMPDIR
"""
SCHEMA = json.loads((ROOT / "schema" / "site.schema.json").read_text(encoding="utf-8"))
GOOD = [
    SITE,
    "scheduler: ssh\nhosts: {alpha: [gpu, big], me@beta:2222: }\nfolder: /fast\nkeep: true\n",
    "scheduler: ssh\nhosts: [alpha, beta]\npatience: 60\nwheels: wheels\nlabels: a\nsetup: b\n",
    "scheduler: ray\naddress: http://head:8265\n",
    "labels: [gpu]\nenvironment: {A: 1}\n",
]
BAD = [
    ("scheduler: slrum\n", 'site.yaml:1: scheduler: slrum is not known; did you mean "slurm"?'),
    ("scheduler: slurm\noptions:\n  mem: [1]\n", "site.yaml:3: options.mem: [1] is not one line"),
    ("scheduler: slurm\noptions: {array: 1-5}\n", "site.yaml:2: options.array: the sweep sets it"),
    ("scheduler: slurm\noptions: {-x: 5}\n", "site.yaml:2: options: '-x' is not a long option"),
    ("labels: [a]\nmodules: [b]\n", "site.yaml:2: modules: it is for the scheduler slurm"),
    ("scheduler: slurm\nthrottle: no\n", "site.yaml:2: throttle: 'no' is not a whole number"),
    ("scheduler: slurm\nshare_nodes: 1\n", "site.yaml:2: share_nodes: 1 is neither true nor"),
    ("scheduler: slurm\npartitions:\n  a:\n    mme: 1\n", "site.yaml:4: partitions.a: mme is not"),
    ("scheduler: slurm\npartitions: {a b: {}}\n", "site.yaml:2: partitions: 'a b' is not a name"),
    ("environment:\n  1A: x\n", "site.yaml:2: environment: '1A' is not the name of a variable"),
    ("scheduler: slurm\ncontainer: {runtime: podman, image: a}\n", "podman is not known"),
    ("scheduler: slurm\ncontainer: {runtime: enroot}\n", "site.yaml:2: container: it has no image"),
    ("name: a/b\n", "site.yaml:1: name: 'a/b' is not a name"),
    ("- a\n", "site.yaml:1: ['a'] is not a mapping"),
]


def written(folder: Path, text: str) -> str:
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    return str(folder / "site.yaml")


def test_what_a_partition_adds_to_its_site(tmp_path: Path) -> None:
    systems = read_site(written(tmp_path, SITE)).systems
    assert list(systems) == ["cpu", "gpu"]
    assert systems["cpu"].flags == {
        "on": "slurm",
        "partition": "cpu",
        "account": "mlperf",
        "time": "30",
        "sbatch": ["--licenses=a,b", "--contiguous"],
        "throttle": "4",
        "share_nodes": True,
        "modules": ["gcc/12"],
    }
    gpu = systems["gpu"]
    assert gpu.name == "site:gpu"
    assert gpu.flags["partition"] == "a100"
    assert gpu.flags["time"] == "1-00:00:00"
    assert gpu.flags["modules"] == ["gcc/12", "cuda"]
    assert gpu.flags["pyxis"] == str(tmp_path / "image.sqsh")
    assert gpu.flags["scratch"] == "$TMPDIR"
    assert gpu.environment["OMP_PROC_BIND"] == "close"


def test_hosts_with_their_labels(tmp_path: Path) -> None:
    (system,) = read_site(written(tmp_path, GOOD[1])).systems.values()
    assert system.flags["hosts"] == "alpha=gpu+big,me@beta:2222"
    assert system.flags["folder"] == "/fast"


def test_hosts_run_the_setup_of_their_site_before_the_worker(tmp_path: Path) -> None:
    text = "scheduler: ssh\nhosts: [a]\nsetup: ['cd /', 'export SITE=\"here $PWD\"']\n"
    (system,) = read_site(written(tmp_path, text)).systems.values()
    site = execution_site(system.flags)
    assert isinstance(site, SshSite)
    command = (*before_worker(site.setup), "printenv", "SITE")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "here /\n"
    loaded = execution_site({"hosts": "a", "modules": "gcc/12,mpi"})
    assert isinstance(loaded, SshSite)
    assert loaded.setup[-1] == "module load gcc/12 mpi || exit 1"
    assert before_worker(()) == ()


@pytest.mark.parametrize(("text", "fault"), BAD)
def test_faults_have_file_and_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Error) as caught:
        read_site(written(tmp_path, text))
    assert caught.value.code == "bad-site"
    assert fault in "\n".join([caught.value.message, *caught.value.context])


def test_a_file_that_is_no_yaml_is_a_fault_of_the_site(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        read_site(written(tmp_path, "scheduler: slurm\noptions: {a: [\n"))
    assert caught.value.code == "bad-site"
    assert "site.yaml:3:1: not valid YAML" in caught.value.message
    assert "sites.md" in str(caught.value.hint)


def accepted(text: str) -> bool:
    data: Any = yaml.safe_load(text)
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(data)


def test_the_schema_says_the_same() -> None:
    assert set(SCHEMA["$defs"]["system"]["properties"]) == set(KEYS)
    assert set(SCHEMA["properties"]) == set(OF_SITE)
    assert all(map(accepted, GOOD))
    # What is for another scheduler is said by the command alone.
    assert [text for text, fault in BAD if accepted(text) and "scheduler slurm" not in fault] == []


@pytest.fixture
def slurm_site(home: Home) -> Path:
    """A home with the site ``lab``; no Slurm is there."""
    folder = home.cm_repos / "cmbench" / "sites"
    folder.mkdir(parents=True)
    (folder / "lab.yaml").write_text(SITE, encoding="utf-8")
    return folder


def test_a_command_names_a_site_and_its_flags_win(
    slurm_site: Path, cm: Callable[..., Finished]
) -> None:
    (slurm_site / "image.sqsh").touch()
    assert "lab                 slurm   A cluster" in cm("show", "site").ok().stdout
    shown = cm("show", "site", "lab").ok().stdout
    assert "--site=lab:gpu  four GPUs" in shown
    assert "  --gres=gpu:4\n" in shown
    words = ("plan", "experiment", "--sweep=sweep.yaml", "--site=lab:gpu", "--json")
    (job,) = json.loads(cm(*words, "--time=7", "--sbatch=--nice=3").ok().stdout)["jobs"]
    submit, script = job["submit"], job["script"].splitlines()
    for word in ("--partition=a100", "--account=mlperf", "--time=7", "--gres=gpu:4", "--nice=3"):
        assert f" {word} " in submit
    assert "30" not in submit.split("--time")[1]
    assert script[1:3] == ['export OMP_PROC_BIND="close"', 'export PATH="/opt/x:$PATH"']
    assert script[4:6] == ["module load gcc/12 cuda || exit 1", "ulimit -c 0"]
    assert script[6].startswith("srun --nodes=1 --ntasks=1")
    assert f"--container-env={VARIABLE},CM_REPOS,OMP_PROC_BIND,PATH python3" in script[6]


@pytest.mark.parametrize(
    ("flag", "problem", "hint"),
    [
        ("--site=lba", "there is no site lba", 'did you mean "lab"?'),
        ("--site=lab:gup", "the site lab has no partition gup", 'did you mean "gpu"?'),
        ("--site=none/a.yaml", "none/a.yaml: No such file", "`cm show site`"),
        ("--site", "--site needs a value", "`cm show site`"),
        ("--site=", "--site needs a value", "`cm show site`"),
    ],
)
def test_sites_that_are_not_there(
    slurm_site: Path, cm: Callable[..., Finished], flag: str, problem: str, hint: str
) -> None:
    done = cm("plan", "experiment", "--sweep=sweep.yaml", flag)
    assert done.status
    assert problem in done.stderr
    assert hint.strip("`") in done.stderr


def test_one_run_elsewhere_needs_a_site_with_hosts(
    slurm_site: Path, cm: Callable[..., Finished]
) -> None:
    done = cm("remote-run", "script", "--tags=detect,os", "--remote_site=lab")
    assert "--remote_site=lab has no hosts" in done.stderr
    assert "cm run script ... --site=lab" in done.stderr
    (slurm_site / "boards.yaml").write_text("scheduler: ssh\nhosts: [no-such-host.invalid]\n")
    done = cm("remote-run", "script", "--tags=detect,os", "--remote_site=boards")
    assert "no-such-host.invalid" in done.stderr


def test_a_run_names_a_site_and_its_plan_shows_the_job(
    slurm_site: Path, cm: Callable[..., Finished]
) -> None:
    words = ("script", "--tags=detect,os", "--site=lab:gpu", "--time=7")
    (slurm_site / "image.sqsh").touch()
    shown = cm("plan", *words).ok().stdout
    assert "\n1 step: 1 fact of this machine\n" in shown
    for word in ("--partition=a100", "--account=mlperf", "--time=7", "--gres=gpu:4"):
        assert f" {word} " in shown
    assert "  module load gcc/12 cuda || exit 1" in shown
    (job,) = json.loads(cm("plan", *words, "--json").ok().stdout)["jobs"]
    assert job["submit"].startswith("sbatch --parsable")


def test_a_run_at_a_site_of_this_machine_has_its_environment(
    slurm_site: Path, cm: Callable[..., Finished], world: Path
) -> None:
    (slurm_site / "here.yaml").write_text("environment: {CMBENCH_SITE_WORD: one}\n")
    for _ in range(2):
        done = cm("run", "script", "--tags=detect,os", "--site=here").ok()
        assert "CM_HOST_OS_TYPE=linux\n" in done.stdout
        assert "record: " in done.stdout
    record = json.loads(Path(done.stdout.rpartition("record: ")[2].strip()).read_text())
    assert record["status"] == "done"


def test_a_secret_is_not_kept_in_a_file(
    slurm_site: Path, cm: Callable[..., Finished], world: Path
) -> None:
    given = "request: {tags: 'detect,os', env: {CM_HUB_TOKEN: S3cret}}\naxes: {env.CM_A: [1]}\n"
    (world / "secret.yaml").write_text(given)
    lines = {
        "run script --tags=detect,os --site=lab --env.CM_HUB_TOKEN=S3cret": "--env.CM_HUB_TOKEN",
        "remote-run script --tags=detect,os --env.CM_X=a://b:S3cret@c": "--env.CM_X",
        "run experiment --sweep=secret.yaml": "--env.CM_HUB_TOKEN",
        "run experiment --tags=mine -- true --hub_token S3cret": "--hub_token",
    }
    for words, name in lines.items():
        done = cm(*words.split())
        assert done.status == 4, done.stderr
        assert f"{name} is a secret" in done.stderr
    files = [path for path in world.rglob("*") if path.is_file() and path.parent != world]
    assert [path for path in files if b"S3cret" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"hf_token": "S3cret"}, True),
        ({"access": "S3cret"}, True),
        ({"env.CM_URL": "https://host/x?key=S3cret"}, True),
        ({"tokens": 128}, False),
        ({"use_auth": "yes", "ssh_key": "/etc/passwd", "hf_token": ""}, False),
    ],
)
def test_what_counts_as_a_secret_of_a_request(values: Mapping[str, Any], refused: bool) -> None:
    with pytest.raises(Error) if refused else nullcontext():
        refuse_secrets(values.items(), {"access": "CM_ACCESS_TOKEN"})


def test_files_that_a_run_has_left_are_named(tmp_path: Path) -> None:
    (tmp_path / "output.txt").touch()
    assert fetched(tmp_path) == fetched(tmp_path / "none") == []
    (tmp_path / "out").mkdir()
    assert fetched(tmp_path) == [f"files of the run: {tmp_path}"]


def test_a_command_line_is_not_measured_at_a_site(
    slurm_site: Path, cm: Callable[..., Finished]
) -> None:
    done = cm("run", "experiment", "--site=lab", "--", "cm", "run", "script", "--tags=detect,os")
    assert "--site is for a sweep" in done.stderr
    assert "cm run script ... --site=NAME" in done.stderr


def test_a_scheduler_that_contradicts_the_site(
    slurm_site: Path, cm: Callable[..., Finished]
) -> None:
    done = cm("plan", "experiment", "--sweep=sweep.yaml", "--site=lab", "--on=ssh")
    assert "--on=ssh: the site lab:cpu is used by slurm" in done.stderr


def test_each_site_has_results_of_its_own(
    home: Home, cm: Callable[..., Finished], counted: Callable[[], list[str]], world: Path
) -> None:
    text = (world / "sweep.yaml").read_text(encoding="utf-8").replace("[1, 2, 4]", "[1]")
    (world / "sweep.yaml").write_text(text.replace("[1, 2]", "[1]"), encoding="utf-8")
    (world / "here.yaml").write_text("environment: {CM_SLEEP: '0'}\n", encoding="utf-8")
    run = ("run", "experiment", "--sweep=sweep.yaml")
    assert "sweep@here: 1 point: 1 measured" in cm(*run, "--site=here.yaml").ok().stdout
    cm(*run, "--site=here.yaml").ok()
    assert counted().count("1,1") == 1
    cm(*run).ok()
    assert counted().count("1,1") == 2
    names = {row["name"] for row in json.loads(cm("show", "experiment", "--json").ok().stdout)}
    assert names == {"sweep", "sweep@here"}


def test_enroot_gets_the_folders_and_the_variables() -> None:
    container = JobContainer("enroot", "torch", variables=("OMP_NUM_THREADS",))
    words = list(container.words(["/a", "/a/b"], "/a/j"))
    assert words[:4] == ["enroot", "start", "--rw", "--mount=/a:/a:none:x-create=dir,rbind"]
    assert "--env=OMP_NUM_THREADS" in words
    assert words[-5:] == ["torch", "sh", "-c", 'cd "$0" && exec "$@"', "/a/j"]
