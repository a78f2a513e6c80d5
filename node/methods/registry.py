"""All methods, by their terms.

A method is a package of its own, with its terms in ``terms`` and its ``Method`` in ``method``; this is the only
place that knows all of them.
"""

from fedgrove.node.methods.kmeans.method import KMeans
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.procfl.method import ProCfl
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.training.method import Training
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.terms import MethodTerms

METHODS: dict[type[MethodTerms], type[Method]] = {
    TrainingTerms: Training,
    ProCflTerms: ProCfl,
    KMeansTerms: KMeans,
}
