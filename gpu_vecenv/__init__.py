"""GPU-resident multi-agent vector environments for Gymnasium. Importing this registers the ids.

The names below are public. Each is imported at its first use, so that ``import gpu_vecenv`` loads neither torch nor CuPy. Public
names of the trainer are in ``gpu_vecenv.train``, those of the adapters in ``gpu_vecenv.adapters``.
"""

from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# In a checkout on PYTHONPATH, envs/ and adapters/ lie next to this folder, not in it. map_checkout() makes imports find them.
_root = Path(__file__).parent.parent
if (_root / "envs" / "tag" / "tag.cu").is_file() and not (Path(__file__).parent / "envs").exists():
    from gpu_vecenv._checkout import map_checkout

    map_checkout(_root)

from gpu_vecenv.importing import at_first_use  # noqa: E402
from gpu_vecenv.registration import register_envs  # noqa: E402

register_envs()

_PUBLIC = {
    "errors": ("DifferenceError", "NonFiniteError", "RecordingError"),
    "render.notebook": ("show",),
    "render.side_by_side": ("side_by_side",),
    "render.video": ("write_video",),
    "render.worlds": ("tile",),
    "spec.contract": ("with_contract",),
    "spec.env_spec": ("EnvSpec",),
    "spec.fields": ("Constant", "Field", "Metric", "ResetOption", "Scratch", "Table", "Workspace"),
    "spec.validation": ("Array",),
    "spec.params": ("LARGEST", "SMALLEST", "TIME_LIMIT", "Param", "Params", "agent_values"),
    "spec.registered": ("register_preset",),
    "spec.roles": ("Role",),
    "vector.env.make": ("make_vec",),
    "vector.env.masks": ("sample_mask",),
    "vector.env.graph": ("CapturedSteps", "capture_steps"),
    "vector.wrappers.normalize": ("NormalizeObservation", "NormalizeReward"),
    "vector.worlds.reset_pool": ("join_states",),
    "vector.wrappers.role_rows": ("RoleRows",),
    "vector.env.recording": ("Recording", "read_recording"),
    "vector.env.replay": ("replay",),
    "vector.env.verify": ("Verified", "verify"),
    "vector.env.single_env": ("SingleEnv",),
    "vector.wrappers.stats": ("EpisodeStatistics",),
    "vector.wrappers.transform": ("ClipAction", "ClipReward", "TransformObservation", "TransformReward"),
    "vector.env.vector_env": ("GpuVectorEnv",),
    "vector.outputs.join_shared": ("whole_obs",),
}  # fmt: skip
"""Public names by the module that defines them."""

_SUBMODULES = ("reference",)
"""Public modules."""

__all__ = sorted([*(name for names in _PUBLIC.values() for name in names), *_SUBMODULES])

if TYPE_CHECKING:
    from gpu_vecenv import reference as reference
    from gpu_vecenv.errors import DifferenceError as DifferenceError
    from gpu_vecenv.errors import NonFiniteError as NonFiniteError
    from gpu_vecenv.errors import RecordingError as RecordingError
    from gpu_vecenv.render.notebook import show as show
    from gpu_vecenv.render.side_by_side import side_by_side as side_by_side
    from gpu_vecenv.render.video import write_video as write_video
    from gpu_vecenv.render.worlds import tile as tile
    from gpu_vecenv.spec.contract import with_contract as with_contract
    from gpu_vecenv.spec.env_spec import EnvSpec as EnvSpec
    from gpu_vecenv.spec.fields import Constant as Constant
    from gpu_vecenv.spec.fields import Field as Field
    from gpu_vecenv.spec.fields import Metric as Metric
    from gpu_vecenv.spec.fields import ResetOption as ResetOption
    from gpu_vecenv.spec.fields import Scratch as Scratch
    from gpu_vecenv.spec.fields import Table as Table
    from gpu_vecenv.spec.fields import Workspace as Workspace
    from gpu_vecenv.spec.params import LARGEST as LARGEST
    from gpu_vecenv.spec.params import SMALLEST as SMALLEST
    from gpu_vecenv.spec.params import TIME_LIMIT as TIME_LIMIT
    from gpu_vecenv.spec.params import Param as Param
    from gpu_vecenv.spec.params import Params as Params
    from gpu_vecenv.spec.params import agent_values as agent_values
    from gpu_vecenv.spec.registered import register_preset as register_preset
    from gpu_vecenv.spec.roles import Role as Role
    from gpu_vecenv.spec.validation import Array as Array
    from gpu_vecenv.vector.env.graph import CapturedSteps as CapturedSteps
    from gpu_vecenv.vector.env.graph import capture_steps as capture_steps
    from gpu_vecenv.vector.env.make import make_vec as make_vec
    from gpu_vecenv.vector.env.masks import sample_mask as sample_mask
    from gpu_vecenv.vector.env.recording import Recording as Recording
    from gpu_vecenv.vector.env.recording import read_recording as read_recording
    from gpu_vecenv.vector.env.replay import replay as replay
    from gpu_vecenv.vector.env.single_env import SingleEnv as SingleEnv
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv as GpuVectorEnv
    from gpu_vecenv.vector.env.verify import Verified as Verified
    from gpu_vecenv.vector.env.verify import verify as verify
    from gpu_vecenv.vector.outputs.join_shared import whole_obs as whole_obs
    from gpu_vecenv.vector.worlds.reset_pool import join_states as join_states
    from gpu_vecenv.vector.wrappers.normalize import NormalizeObservation as NormalizeObservation
    from gpu_vecenv.vector.wrappers.normalize import NormalizeReward as NormalizeReward
    from gpu_vecenv.vector.wrappers.role_rows import RoleRows as RoleRows
    from gpu_vecenv.vector.wrappers.stats import EpisodeStatistics as EpisodeStatistics
    from gpu_vecenv.vector.wrappers.transform import ClipAction as ClipAction
    from gpu_vecenv.vector.wrappers.transform import ClipReward as ClipReward
    from gpu_vecenv.vector.wrappers.transform import TransformObservation as TransformObservation
    from gpu_vecenv.vector.wrappers.transform import TransformReward as TransformReward

__getattr__, __dir__ = at_first_use(__name__, _PUBLIC, _SUBMODULES)
