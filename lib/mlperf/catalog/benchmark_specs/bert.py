"""BERT-large on SQuAD v1.1."""

from ..benchmark import Assets, BenchmarkSpec, Limit, ModelSize, Period, Scratch, Target, strict
from ..metrics import F1
from ..periods import STREAM, queries, test
from ..scenario import SERVER
from ..text_enums import Answers

BERT = BenchmarkSpec(
    name="bert-99",
    loadgen_key="bert",
    dataset_size=10833,
    accuracy=(Target(F1, 90.874),),
    edge=(Period("0.7", "6.1", STREAM),),
    datacenter=queries("0.7", "4.1"),
    limits={SERVER: Limit(130)},
    compliance=(test(1, "0.7", "6.1"), test(5, "0.7", "4.1")),
    module="question_answering:QuestionAnswering",
    assets=Assets(
        model="get,ml-model,language-processing,bert-large",
        data="get,preprocessed,dataset,squad",
        model_name="bert",
        data_name="squad",
        base="bert_",
    ),
    fastest="int8",
    size=ModelSize(parameters=334, sample_operations=5e10),
    scratch=Scratch(
        gigabytes=4,
        data="squad",
        models="bert",
        preprocessed_data="squad_tokenized",
        whole=(("preprocessed_data/squad_tokenized", ".npy", 3),),
    ),
    # Answers have the length of their paragraph where it is not padded.
    answers=Answers.VARIABLE,
    open_names=("*bert-99", "*bert-99[!.]*"),
)
SPECS = (BERT, strict(BERT, edge=(Period("5.0", "6.1", STREAM),), open_names=("*bert-99.9*",)))
