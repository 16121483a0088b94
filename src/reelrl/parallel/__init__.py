"""One executor of plain tasks and records, in one of three places: this process, worker processes, a Ray cluster."""

from reelrl.parallel.executor import Executor, InProcess, Threads, cores, executor
from reelrl.parallel.place import WorkPlace, working_at
from reelrl.parallel.task import close_at_end

__all__ = ["Executor", "InProcess", "Threads", "WorkPlace", "close_at_end", "cores", "executor", "working_at"]
