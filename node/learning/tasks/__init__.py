"""Tasks: what a federation learns when its members bring model, data, loss and metrics of their own."""

from fedgrove.node.learning.tasks.standardise import Standardise
from fedgrove.node.learning.tasks.task import Answers, Data, InvalidTask, Task, Unlabelled

__all__ = ["Answers", "Data", "InvalidTask", "Standardise", "Task", "Unlabelled"]
