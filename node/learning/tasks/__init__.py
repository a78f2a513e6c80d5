"""Tasks: what a federation learns when its members bring model, data, loss and metrics of their own (spec 07)."""

from fedgrove.node.learning.tasks.standardise import Standardise
from fedgrove.node.learning.tasks.task import Data, InvalidTask, Task

__all__ = ["Data", "InvalidTask", "Standardise", "Task"]
