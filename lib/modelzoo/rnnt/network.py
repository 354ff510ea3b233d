"""The tiny transducer: an encoder of features, a prediction network of letters, and the joint.

It is exported as two graphs. The encoder maps features of whole utterances to states; the step
takes one state per utterance, the last letter and the state of the prediction network, and
gives the scores of the next letter. Nothing in the encoder looks ahead further than two frames,
so padding on the right changes nothing before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

LABELS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LABELS)


@dataclass(frozen=True, slots=True)
class TinyTransducerSize:
    """Widths of the layers."""

    features: int = 240
    narrow: int = 48
    encoder: int = 56
    embedding: int = 16
    prediction: int = 48
    joint: int = 56


class TransducerEncoder(nn.Module):
    """States [n, t, joint] of features [n, t, 240]."""

    def __init__(self, size: TinyTransducerSize) -> None:
        super().__init__()
        self.narrow = nn.Linear(size.features, size.narrow)
        self.around = nn.Conv1d(size.narrow, size.encoder, 3)
        self.memory = nn.LSTM(size.encoder, size.encoder, batch_first=True)
        self.out = nn.Linear(size.encoder, size.joint)

    def forward(self, features: Tensor) -> Tensor:
        """See the class."""
        x = torch.relu(self.narrow(features)).transpose(1, 2)
        x = torch.relu(self.around(functional.pad(x, (1, 1)))).transpose(1, 2)
        states: Tensor = self.out(x + self.memory(x)[0])
        return states


class PredictionStep(nn.Module):
    """Scores [n, 29] for states [n, joint], last letters [n] and the prediction network's state."""

    def __init__(self, size: TinyTransducerSize) -> None:
        super().__init__()
        self.size = size
        self.letters = nn.Embedding(BLANK + 1, size.embedding)
        self.memory = nn.LSTM(size.embedding, size.prediction, batch_first=True)
        self.text = nn.Linear(size.prediction, size.joint)
        self.scores = nn.Linear(size.joint, BLANK + 1)

    def predict(
        self, letters: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What letters [n, u] contribute to the joint [n, u, joint], and the new state."""
        outputs, (hidden, cell) = self.memory(self.letters(letters), (hidden, cell))
        return self.text(outputs), hidden, cell

    def join(self, states: Tensor, text: Tensor) -> Tensor:
        """Scores of the sum of both; their leading sizes are those of a broadcast."""
        scores: Tensor = self.scores(torch.relu(states + text))
        return scores

    def forward(
        self, state: Tensor, letter: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step for ``state`` [n, joint] and ``letter`` [n]; the others are [n, width]."""
        text, hidden, cell = self.predict(letter[:, None], hidden[None], cell[None])
        return self.join(state, text[:, 0]), hidden[0], cell[0]


def transducer_loss(scores: Tensor, labels: Tensor, frames: Tensor, letters: Tensor) -> Tensor:
    """The mean over utterances of -log of the probability of all alignments, per letter.

    ``scores`` [n, t, u + 1, 29], ``labels`` [n, u], ``frames`` and ``letters`` [n] are true sizes.
    The probability is summed along the diagonals of the grid of frames and letters.
    """
    logs = torch.log_softmax(scores, dim=-1)
    n, t, u = logs.shape[0], logs.shape[1], logs.shape[2] - 1
    blank = logs[..., BLANK]
    index = labels[:, None, :, None].expand(n, t, u, 1)
    emit = logs[:, :, :u].gather(3, index)[..., 0]
    emit = functional.pad(emit, (0, 1), value=-1e4)
    rows = torch.arange(u + 1)
    column = torch.full((n, u + 1), -1e4)
    column[:, 0] = 0
    columns = [column]
    for diagonal in range(1, t + u):
        at = (diagonal - 1 - rows).clamp(0, t - 1)
        valid = (diagonal - 1 - rows >= 0) & (diagonal - 1 - rows < t)
        stay = torch.where(valid, column + blank[:, at, rows], torch.full_like(column, -1e4))
        moved = torch.where(valid, column + emit[:, at, rows], torch.full_like(column, -1e4))
        moved = functional.pad(moved[:, :-1], (1, 0), value=-1e4)
        column = torch.logaddexp(stay, moved)
        columns.append(column)
    grid = torch.stack(columns, dim=1)
    many = torch.arange(n)
    last = grid[many, frames - 1 + letters, letters] + blank[many, frames - 1, letters]
    return -(last / letters.clamp(min=1)).mean()
