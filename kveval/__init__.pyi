# What `import kveval` offers. `__init__.py` reads this list, and type checkers do.
from .api.data import fetch_data as fetch_data
from .api.data import list_data as list_data
from .api.doctor import check_machine as check_machine
from .api.load import measure_load as measure_load
from .api.load import plan_load as plan_load
from .api.memory import estimate_memory as estimate_memory
from .api.runs import build_history as build_history
from .api.runs import build_report as build_report
from .api.runs import diff as diff
from .api.runs import gate as gate
from .api.runs import list_runs as list_runs
from .api.runs import load_run as load_run
from .api.runs import recommend as recommend
from .api.runs import show_sample as show_sample
from .api.starting import write_config as write_config
from .api.sweep import plan_sweep as plan_sweep
from .api.sweep import sweep as sweep
from .api.tasks import example_prompts as example_prompts
from .api.tasks import list_tasks as list_tasks
from .api.tasks import load_task as load_task
from .api.tasks import score_answer as score_answer
from .config.sweep import SweepConfig as SweepConfig
from .errors import IncomparableError as IncomparableError
from .errors import InfrastructureError as InfrastructureError
from .errors import InterruptedRunError as InterruptedRunError
from .errors import KvevalError as KvevalError
from .errors import UsageError as UsageError
from .tasks.builders.base import Builder as Builder
from .tasks.builders.base import ChatBuilder as ChatBuilder
from .tasks.builders.base import Haystack as Haystack
from .tasks.builders.base import Needle as Needle
from .tasks.builders.base import Question as Question
from .tasks.dataset import HaystackDataset as HaystackDataset
from .tasks.sample import Sample as Sample
from .tasks.task import Task as Task

__version__: str
__all__: list[str]
