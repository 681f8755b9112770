"""Wrong command lines: each ends with status 2 and one line that names what was expected and what was given."""

import contextlib
import shlex

import pytest

from gpu_vecenv.cli.main import main
from gpu_vecenv.train import NetworkConfig, TrainConfig, Trainer

LINES = """
sing | gpu-vecenv: there is no command 'sing'
tain | did you mean 'train'?
'' | there is no command ''
--wrong | there is no command '--wrong'
train WarpTag-v1 | Did you mean 'WarpTag-v0'?
train WarpTug-v0 | Did you mean 'WarpTag-v0'?
train CartPole-v1 | Did you mean 'WarpCartPole-v1'?
train Orchard-v0 | MODULE:Orchard-v0
train nowhere:Orchard-v0 | got 'nowhere:Orchard-v0'
train :WarpTag-v0 | got ':WarpTag-v0'
train .:WarpTag-v0 | got '.:WarpTag-v0'
train a/b:WarpTag-v0 | got 'a/b:WarpTag-v0'
train a:b:WarpTag-v0 | got 'a:b:WarpTag-v0'
train nowhere: | got 'nowhere:'
train | expected an env id, such as WarpTag-v0, or a --config with one, got None
train --config /dev/zero | /dev/zero: expected a file of at most 33,554,432 bytes, got more
train '' | got ''
train 'Warp Tag' | got 'Warp Tag'
train WarpTag-v0 --num-envs 0 | num_envs: expected an integer from 1 to 2147483647, 'auto' or None, got 0
train WarpTag-v0 --num-envs -3 | num_envs: expected an integer from 1 to 2147483647, 'auto' or None, got -3
train WarpCartPole-v1 --num-envs 99999999999999999999 | an integer from 1 to 2147483647
train WarpTag-v0 --auto-sizes num_envs=(2,4) | auto_sizes: expected num_envs='auto' with it, got None
train WarpTag-v0 --num-envs auto --auto-sizes num_envs=4 | auto_sizes.num_envs: expected two integers from 1 to 2147483647
train WarpTag-v0 --num-envs auto --auto-sizes worlds=(2,4) | AutoSizes option: expected one of num_envs, num_steps
train WarpTag-v0 --num-envs auto --total-steps 10 --auto-sizes num_envs=(1,4) | at most 0 steps in a rollout
train WarpPendulum-v1 --num-envs auto --algorithm td3 | num_envs: expected a number with the algorithm 'td3'
train WarpTag-v0 --devices cpu | --devices: expected it with several runs, as by --seeds, got one run and cpu
train WarpTag-v0 --seeds 2 --devices cpu --device cpu | --devices: expected no --device with it, got cpu
train WarpTag-v0 --total-steps 0 | total_steps: expected an integer from 1 to 9223372036854775807, or None, got 0
train WarpTag-v0 --total-steps -5 | total_steps: expected an integer from 1 to 9223372036854775807, or None, got -5
train WarpTag-v0 --seed -1 | seed: expected an integer from 0 to 2**64 - 1, got -1
train WarpTag-v0 --seed 18446744073709551616 | seed: expected an integer from 0 to 2**64 - 1, got 18446744073709551616
train WarpTag-v0 --device gpu | got 'gpu'
train WarpTag-v0 --device cuda:99 | cuda:99
train WarpTag-v0 --device cuda: | got 'cuda:'
train WarpTag-v0 --device '' | got ''
train WarpCartPole-v1 --out file | file
train WarpCartPole-v1 --out file/below | file
train WarpCartPole-v1 --out /proc/nowhere | /proc/nowhere
train WarpCartPole-v1 --out '' | out: expected a folder
train WarpCartPole-v1 --out run | expected a new folder, got one with a run in it
train WarpCartPole-v1 --resume | runs/WarpCartPole-v1
train WarpCartPole-v1 --resume --out folder | expected a checkpoint file, got none
train WarpCartPole-v1 --resume --out file | file
train WarpTag-v0 --resume --out run | expected WarpCartPole-v1, the env of the run in run, got WarpTag-v0
train WarpCartPole-v1 --resume --out run --seed 3 | --resume: expected no other options
train WarpCartPole-v1 --resume --out run --total-steps 0 | total_steps: expected an integer from 1 to
train WarpCartPole-v1 --resume --out run --threads 0 | threads: expected an integer from 1 to 1024, got 0
train WarpCartPole-v1 --resume --out damaged | damaged/metrics.jsonl
train WarpTag-v0 --num-envs 1.5 | --num-envs: expected a whole number such as 100000 or 1e5, got '1.5'
train WarpTag-v0 --threads two | --threads: expected a whole number such as 100000 or 1e5, got 'two'
train WarpTag-v0 --num-envs many | --num-envs: expected a whole number such as 100000 or 1e5, got 'many'
train WarpTag-v0 --total-steps 1.5 | --total-steps: expected a whole number such as 100000 or 1e5, got '1.5'
train WarpTag-v0 --checkpoint-interval often | --checkpoint-interval: expected a whole number such as 100000 or 1e5, got 'often'
watch run --fps fast | --fps: expected a whole number such as 100000 or 1e5, got 'fast'
watch run --worlds 1.5 | --worlds: expected a whole number such as 100000 or 1e5, got '1.5'
watch run --max-frames none | --max-frames: expected a whole number such as 100000 or 1e5, got 'none'
memory WarpTag-v0 --num-worlds some | --num-worlds: expected a whole number such as 100000 or 1e5, got 'some'
bench --sizes 1.5 | --sizes: expected a whole number such as 100000 or 1e5, got '1.5'
eval run --episodes some | --episodes: expected a whole number such as 100000 or 1e5, got 'some'
train WarpTag-v0 --env num_taggers | --env: expected KEY=VALUE, got 'num_taggers'
train WarpTag-v0 --env =5 | --env: expected KEY=VALUE, got '=5'
train WarpTag-v0 --env num_taggers=2 num_taggers=3 | --env: expected each name once, got 'num_taggers' twice
train WarpTag-v0 --env x= | unexpected keyword argument 'x'
train WarpTag-v0 --env num_taggers= | num_taggers must be a number, got ''
train WarpTag-v0 --env num_taggers=0 | at least 1, got 0
train WarpTag-v0 --env num_taggers=1e400 | num_taggers must be a 32-bit integer, got inf
train WarpTag-v0 --env num_taggers=-1e400 | num_taggers must be a 32-bit integer, got -inf
train WarpTag-v0 --env num_taggers=True | num_taggers must be a number, got True
train WarpTag-v0 --env num_taggers=2.5 | must be a 32-bit integer, got 2.5
train WarpTag-v0 --env num_taggers=99999999999 | must be a 32-bit integer, got 99999999999
train WarpTag-v0 --env num_taggers=5000 | a world holds 1 to 4096 agents, got 5100
train WarpTag-v0 --env 'num_taggers=(1, 2)' | num_taggers must be a number, got [1, 2]
train WarpTag-v0 --env num_taggers=1+2j | env_kwargs: expected numbers, text, lists and dicts
train WarpTag-v0 --env 'num_taggers={[]:1}' | num_taggers must be a number, got '{[]:1}'
train WarpTag-v0 --env num_taggerz=3 | Did you mean 'num_taggers'?
train WarpTag-v0 --env fixed_start=maybe | fixed_start must be True or False, got 'maybe'
train WarpTag-v0 --env starting_location_x=a starting_location_y=b | starting_location_x must be numbers
train WarpTag-v0 --env view=worlds | got ['view'], which are arguments of make_vec
train WarpTag-v0 --env num_envs=5 | got ['num_envs'], which are arguments of make_vec
train WarpTag-v0 --env id=5 | got ['id'], which are arguments of make_vec
train WarpTag-v0 --env env_spec=5 | got ['env_spec'], which are arguments of make_vec
train WarpTag-v0 --env vectorization_mode=sync | got ['vectorization_mode'], which are arguments of make_vec
train WarpTag-v0 --env wrappers=5 | got ['wrappers'], which are arguments of make_vec
train WarpTag-v0 --gpus 0 | --gpus: expected a number from 1 on, got 0
train WarpTag-v0 --gpus 99 --num-envs 99 --device cuda | --gpus: expected at most
train WarpTag-v0 --gpus 3 --num-envs 8 | num_envs: expected a multiple of 3, the number of processes, got 8
train WarpTag-v0 --gpus 2 --seeds 2 | --gpus: expected one run in several processes, got those of 2 with --gpus 2
train WarpTag-v0 --gpus 2 --dry-run --device cpu --algorithm nope | algorithm: expected one of ppo, pqn, sac
train WarpTag-v0 --gpus 2 --dry-run --device cpu --policies runner.algorithm=nope | algorithm: expected one of ppo, pqn, sac
train WarpTag-v0 --policies runner.sac.num_steps=8 | --algorithms sac.num_steps=8
train WarpTag-v0 --policies runner.ppo.num_steps=8 | --ppo num_steps=8
train WarpTag-v0 --dry-run | --dry-run: expected --gpus with it, whose command it prints, got none
train WarpTag-v0 --num-envs 8 --shards 3 | num_envs: expected a multiple of 3, the number of shards, got 8
train WarpTag-v0 --shards 0 | shards: expected an integer from 1
train WarpTag-v0 --env first_world=-1 | first_world must be an integer from 0
train WarpTag-v0 --env render_mode=human | render_mode must be one of None, 'rgb_array', got 'human'
train WarpTag-v0 --env debug=5 | debug must be one of True, False, got 5
train WarpTag-v0 --policy tagger | --policy: expected KEY=VALUE, got 'tagger'
train WarpTag-v0 --policy tagger= runner=a | expected a dict of role and policy names
train WarpTag-v0 --policy tagger=a/b runner=a | expected a non-empty policy name without '/', got 'a/b'
train WarpTag-v0 --policy tagger=a | got none for 'runner'
train WarpTag-v0 --policy cat=a tagger=b runner=c | a range of one such as tagger[0:1], got 'cat'
train WarpTag-v0 --policy tagger=random runner=random | expected at least one policy to train
train WarpTag-v0 --frozen nobody | got unknown ['nobody']
train WarpTag-v0 --frozen tagger runner | expected at least one policy to train
train WarpTag-v0 --load a=b | got 'a'
train WarpTag-v0 --load tagger | --load: expected KEY=VALUE, got 'tagger'
train WarpTag-v0 --load tagger=nowhere | nowhere: expected a checkpoint file, got none
train WarpTag-v0 --load tagger=file | file: expected a gpu_vecenv.train checkpoint of format version 3
train WarpTag-v0 --load tagger=run | expected a policy named 'tagger', got policies ['agent']
train WarpCartPole-v1 --load agent=run | policy 'agent': expected a dict with the keys
train WarpTag-v0 --ppo gama=1 | expected one of num_steps
train WarpTag-v0 --ppo num_steps | --ppo: expected KEY=VALUE, got 'num_steps'
train WarpTag-v0 --ppo num_steps=True | num_steps: expected an integer from 1 to 65536, got True
train WarpTag-v0 --ppo num_steps=0 | num_steps: expected an integer from 1 to 65536, got 0
train WarpTag-v0 --ppo num_steps=1.5 | num_steps: expected an integer from 1 to 65536, got 1.5
train WarpTag-v0 --ppo num_steps=999999999999 | num_steps: expected an integer from 1 to
train WarpTag-v0 --ppo num_steps=2147483647 | num_steps: expected an integer from 1 to 65536, got
train WarpTag-v0 --ppo num_epochs=-1 | num_epochs: expected an integer from 1 to 2147483647, got -1
train WarpTag-v0 --ppo num_minibatches=() | num_minibatches: expected an integer from 1 to 2147483647, got ()
train WarpTag-v0 --ppo learning_rate=abc | learning_rate: expected a number > 0, got 'abc'
train WarpTag-v0 --ppo learning_rate=0 | learning_rate: expected a number > 0, got 0
train WarpTag-v0 --ppo learning_rate=1e400 | learning_rate: expected a number > 0, got inf
train WarpTag-v0 --ppo learning_rate_schedule=cosine | expected 'constant', 'linear' or 'adaptive', got 'cosine'
train WarpTag-v0 --ppo gamma=1.5 | gamma: expected a number in [0, 1], got 1.5
train WarpTag-v0 --ppo gae_lambda=-1 | gae_lambda: expected a number in [0, 1], got -1
train WarpTag-v0 --ppo clip_coef=None | clip_coef: expected a number > 0, got None
train WarpTag-v0 --ppo clip_value=1 | clip_value: expected True or False, got 1
train WarpTag-v0 --ppo value_coef=x | value_coef: expected a number, got 'x'
train WarpTag-v0 --ppo value_coef=1e400 | value_coef: expected a number, got inf
train WarpTag-v0 --ppo entropy_coef=True | entropy_coef: expected a number, got True
train WarpTag-v0 --ppo entropy_coef_final=x | entropy_coef_final: expected a number, or None, got 'x'
train WarpTag-v0 --ppo entropy_schedule=((0,0.1),) | entropy_schedule: expected pairs of steps, which increase from 1 on
train WarpTag-v0 --ppo entropy_schedule=((5,0.1),) entropy_coef_final=0.1 | expected it or entropy_coef_final, got both
train WarpTag-v0 --ppo max_grad_norm=-1 | max_grad_norm: expected a number > 0, got -1
train WarpTag-v0 --ppo target_kl=x | target_kl: expected a number > 0, or None, got 'x'
train WarpTag-v0 --ppo bootstrap_at_time_limit=x | expected True or False, or None, got 'x'
train WarpTag-v0 --network hidden_sizes=64 | hidden_sizes: expected a tuple of integers
train WarpTag-v0 --network hidden_sizes=(0,) | hidden_sizes: expected a tuple of integers
train WarpTag-v0 --network hidden_sizes=(True,) | hidden_sizes: expected a tuple of integers
train WarpTag-v0 --network hidden_sizes=(9999999999999,) | hidden_sizes: expected a tuple of integers
train WarpTag-v0 --network activation=5 | activation: expected 'tanh', 'relu', 'elu' or 'silu', got 5
train WarpTag-v0 --network activation=[] | activation: expected 'tanh', 'relu', 'elu' or 'silu', got []
train WarpTag-v0 --network depth=3 | critic, critic_value, layer_norm, got 'depth'
train WarpTag-v0 --checkpoint-interval 0 | checkpoint_interval: expected an integer from 1 to 9223372036854775807, or None, got 0
train WarpTag-v0 --threads 0 | threads: expected an integer from 1 to 1024, got 0
train WarpTag-v0 --threads 99999999999 | threads: expected an integer from 1 to 1024, got 99999999999
eval nowhere | nowhere: expected a checkpoint file, got none
eval '' | expected the folder of one run, such as
eval folder | expected a checkpoint file, got none
eval file | file: expected a gpu_vecenv.train checkpoint of format version 3
eval file/below | expected a checkpoint, got
eval run --episodes 0 | episodes: expected an integer from 1 to 2147483647, got 0
eval run --episodes -1 | episodes: expected an integer from 1 to 2147483647, got -1
eval run --episodes 99999999999999 | episodes: expected an integer from 1 to 2147483647, got 99999999999999
eval run --seed -1 | seed: expected an integer from 0 to 2**64 - 1, got -1
eval run --seed 18446744073709551616 | seed: expected an integer from 0 to 2**64 - 1, got 18446744073709551616
eval run --device tpu | got 'tpu'
eval run --policy agent | --policy: expected KEY=VALUE, got 'agent'
eval run --policy agent= | who acts for 'agent': expected a name, FOLDER
eval | expected a run, a TrainConfig, or policies of runs
watch --out film.gif | expected a run, a TrainConfig, or policies of runs
watch | out: expected a video to write
eval run --policy tagger=random | a range of one such as agent[0:1], got 'tagger'
eval run --policy agent=other | expected a policy named 'other', got policies ['agent']
eval run --threads 0 | threads: expected an integer from 1 to 1024, got 0
eval run --threads 99999999999 | threads: expected an integer from 1 to 1024, got 99999999999
plot nowhere | nowhere
plot '' | metrics.jsonl
plot file | expected at least one iteration, got none
plot folder | folder/metrics.jsonl: expected the metrics of a run, got no such file
plot run | run/metrics.jsonl: expected at least one iteration, got none
plot list | list/metrics.jsonl, line 1: expected
plot text | text/metrics.jsonl, line 1: expected
plot number | number/metrics.jsonl, line 1: expected
plot missing | missing/metrics.jsonl, line 1: expected
plot nan | nan/metrics.jsonl, line 1: expected
plot large | large/metrics.jsonl, line 1: expected
plot deep | deep/metrics.jsonl
plot bytes | bytes/metrics.jsonl: expected
plot damaged | damaged/metrics.jsonl
plot good --out . | : expected a file name ending in one of
plot good --out folder/ | : expected a file name ending in one of
plot good --out '' | : expected a file name ending in one of
plot good --out name | : expected a file name ending in one of
plot good --out curves.mp4 | : expected a file name ending in one of
plot good --out file/curves.png | file
plot good --out folder.png | folder.png
watch nowhere | nowhere: expected a checkpoint file, got none
watch file | file: expected a gpu_vecenv.train checkpoint of format version 3
watch run --out film.txt | must end in .mp4 or .gif
watch run --out film | must end in .mp4 or .gif
watch run --out . | --out must be a file to write, got the folder .
watch run --out file/film.gif | file
watch run --out folder.gif | folder.gif
watch run --episodes 0 | --episodes: expected an integer >= 1, got 0
watch run --episodes -1 | --episodes: expected an integer >= 1, got -1
watch run --worlds 0 | --worlds: expected an integer from 1 to 1000, got 0
watch run --worlds 1000000000 | --worlds: expected an integer from 1 to 1000, got 1000000000
watch run --max-frames 0 | --max-frames: expected an integer from 1 to 9223372036854775807, got 0
watch run --max-frames -1 | --max-frames: expected an integer from 1 to 9223372036854775807, got -1
watch run --max-frames 99999999999999999999 | --max-frames: expected an integer from 1 to 9223372036854775807, got 99999999999999
watch run --seed -1 | --seed: expected an integer from 0 to 18446744073709551615, got -1
watch run --seed 18446744073709551615 --episodes 2 | seed
watch run --device tpu | got 'tpu'
watch run --policy agent=other | expected a policy named 'other'
watch run --fps 0 | --fps: expected an integer from 1 to 1000, got 0
watch run --fps -1 | --fps: expected an integer from 1 to 1000, got -1
watch run --fps 1000000000 | --fps: expected an integer from 1 to 1000, got 1000000000
watch run --threads 0 | threads: expected an integer from 1 to 1024, got 0
memory WarpTag-v1 | Did you mean 'WarpTag-v0'?
memory CartPole-v1 | Did you mean 'WarpCartPole-v1'?
memory Orchard-v0 | MODULE:Orchard-v0
memory nowhere:Env-v0 | got 'nowhere:Env-v0'
memory '' | got ''
memory WarpTag-v0 --num-envs 0 | num_envs must be an integer from 1 to 2147483647, got 0
memory WarpTag-v0 --num-envs -1 | num_envs must be an integer from 1 to 2147483647, got -1
memory WarpTag-v0 --num-envs 99999999999999999999999 | an integer from 1 to 2147483647
memory WarpTag-v0 --num-worlds 0 | num_worlds must be an integer from 1 to 2147483647, got 0
memory WarpTag-v0 --num-worlds 4294967296 | an integer from 1 to 2147483647
memory WarpTag-v0 --num-worlds 2 --num-envs 3 | give one of them
memory WarpTag-v0 --num-envs 3 --view agents | multiple
memory WarpTag-v0 --view rows | view must be one of 'worlds', 'agents', got 'rows'
memory WarpTag-v0 --autoreset-mode later | autoreset_mode must be one of
memory WarpTag-v0 --device tpu | got 'tpu'
memory WarpTag-v0 --env num_taggers | --env: expected KEY=VALUE, got 'num_taggers'
memory WarpTag-v0 --env num_taggers=1e400 | num_taggers must be a 32-bit integer
memory WarpTag-v0 --env num_worlds=5 | got ['num_worlds']
memory WarpTag-v0 --env device=cpu | got ['device']
bench --envs nothing | --envs
bench --sizes 0 | --sizes
bench --sizes -1 | --sizes
bench --sizes 99999999999999999999 | --sizes
bench --device tpu | got 'tpu'
bench --modes fly | --modes must be some of
bench --modes | --modes must be some of
bench --rounds 0 | --rounds must be at least 1
bench --rounds -1 | --rounds must be at least 1
bench --seconds 0 | --seconds
bench --seconds nan | --seconds
bench --seconds inf | --seconds
bench --seconds -1 | --seconds
bench --threads 0 | threads: expected an integer from 1 to 1024, got 0
bench --threads 99999999999 | threads: expected an integer from 1 to 1024, got 99999999999
bench --purejaxrl folder | --purejaxrl must be a folder that holds ppo.py
bench --warpdrive folder | --warpdrive must be a folder that holds warp_drive
bench --out folder | --out
bench --out file/x.json | file
bench --out '' | --out
doctor loudly | loudly
doctor --loudly | --loudly
envs loudly | loudly
"""
"""Command lines, each with a part of the line that it must print."""

BOXED = """
train WarpTag-v0 other
train WarpTag-v0 --wrong
train WarpTag-v0 --num-envs
train WarpTag-v0 --seed 1.5
train WarpTag-v0 --out
train WarpTag-v0 --resume yes
eval run other
eval run --deterministic maybe
plot
plot run --wrong
memory
memory WarpTag-v0 --copy 5
bench WarpTag-v0
bench --seconds long
bench --peers maybe
"""
"""Lines for which tyro prints the error, in a box."""

METRICS = {
    "good": '{"iteration": 1, "steps": 5, "steps_per_second": 2.0, "return/agent": null}\n',
    "list": "[1, 2]\n",
    "text": '{"iteration": 1, "steps": "5"}\n',
    "number": '{"iteration": 1, "steps": 5, "kl/agent": "much"}\n',
    "missing": '{"iteration": 1}\n',
    "nan": '{"iteration": 1, "steps": NaN}\n',
    "large": '{"iteration": 1, "steps": 1' + "0" * 400 + "}\n",
    "deep": "[" * 100_000 + "\n",
    "bytes": b"\xff\xfe\x00\n",
}
"""Contents of ``metrics.jsonl``, by the name of its folder."""


def furnish(root):
    """Create the runs, files and folders that the lines name; no run has completed an iteration."""
    (root / "file").touch()
    for name in ("folder", "folder.png", "folder.gif"):
        (root / name).mkdir()
    for name in ("run", "damaged"):
        config = TrainConfig("WarpCartPole-v1", 4, 128, device="cpu", out=str(root / name), network=NetworkConfig((4,)))
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            trainer.train(iterations=0)
    (root / "damaged" / "metrics.jsonl").unlink()
    (root / "damaged" / "metrics.jsonl").mkdir()
    for name, text in METRICS.items():
        (root / name).mkdir()
        (root / name / "metrics.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder in which the lines are run."""
    root = tmp_path_factory.mktemp("place")
    furnish(root)
    return root


@pytest.fixture(autouse=True)
def in_place(place, monkeypatch):
    """Disable training and measuring, so that a line must fail before them."""
    monkeypatch.chdir(place)
    monkeypatch.setattr("gpu_vecenv.train.runner.trainer.Trainer.launch", None)
    monkeypatch.setattr("gpu_vecenv.cli.bench.measure_floors", None)


def contents(root):
    """Paths of all files and folders below ``root``."""
    return set(root.rglob("*"))


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_a_wrong_line_prints_one_line(line, place, capfd):
    words, said = line.split(" | ")
    before = contents(place)
    words = shlex.split(words)
    words += ["--device", "cpu"] if words[0] in ("train", "eval", "watch", "memory", "bench") and "--device" not in words else []
    status = main(words)
    error = capfd.readouterr().err
    assert (status, error.count("\n")) == (2, 1), error
    assert error.startswith("gpu-vecenv") and said in error
    assert contents(place) == before


@pytest.mark.parametrize("line", BOXED.strip().splitlines())
def test_tyro_prints_a_box_for_a_wrong_line(line, capfd):
    assert main(shlex.split(line)) == 2
    error = capfd.readouterr().err
    assert "Traceback" not in error and error.startswith("╭")
