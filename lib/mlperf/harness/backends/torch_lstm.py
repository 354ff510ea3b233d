"""The ONNX operator LSTM as a module of PyTorch, for onnx2torch, which has no converter of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from onnx2torch.utils.common import OnnxMapping, OperationConverterResult, get_const_value

DIRECTIONS = {"forward": 1, "bidirectional": 2}
ACTIVATIONS = ["sigmoid", "tanh", "tanh"]
# ONNX stacks rows as input, output, forget, cell; PyTorch as input, forget, cell, output.
GATES = (0, 2, 3, 1)
# Places of the operator's inputs.
X, WEIGHTS, RECURRENT, BIASES, LENGTHS, HIDDEN, CELL, PEEPHOLES = range(8)


class Lstm(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """An LSTM layer over [t, n, in] that answers in ONNX's layout.

    ``weights`` is [d, 4 h, in], ``recurrent`` [d, 4 h, h], ``biases`` [d, 8 h] or None, gates in
    ONNX's order; d is the number of directions. ``outputs`` says how many of Y, Y_h and Y_c are
    given: one alone comes without a tuple.
    """

    def __init__(
        self,
        weights: torch.Tensor,
        recurrent: torch.Tensor,
        biases: torch.Tensor | None,
        outputs: int,
    ) -> None:
        super().__init__()
        directions, rows, width = weights.shape
        self._outputs = outputs
        self._directions = directions
        self.lstm = torch.nn.LSTM(
            width, rows // 4, bias=biases is not None, bidirectional=directions == 2
        )
        with torch.no_grad():
            for number, suffix in enumerate(("", "_reverse")[:directions]):
                self._set(f"weight_ih_l0{suffix}", weights[number])
                self._set(f"weight_hh_l0{suffix}", recurrent[number])
                if biases is not None:
                    before, after = biases[number].chunk(2)
                    self._set(f"bias_ih_l0{suffix}", before)
                    self._set(f"bias_hh_l0{suffix}", after)

    def _set(self, name: str, values: torch.Tensor) -> None:
        blocks = values.chunk(4)
        getattr(self.lstm, name).copy_(torch.cat([blocks[place] for place in GATES]))

    def forward(
        self,
        x: torch.Tensor,
        initial_h: torch.Tensor | None = None,
        initial_c: torch.Tensor | None = None,
    ) -> Any:
        """Y [t, d, n, h], Y_h and Y_c [d, n, h]; a state that is not given is zero."""
        states = None
        if initial_h is not None or initial_c is not None:
            zero = x.new_zeros(self._directions, x.shape[1], self.lstm.hidden_size)
            states = tuple(zero if state is None else state for state in (initial_h, initial_c))
        y, last = self.lstm(x, states)
        y = y.unflatten(2, (self._directions, -1)).transpose(1, 2)
        return y if self._outputs == 1 else (y, *last)[: self._outputs]


def convert(node: Any, graph: Any) -> OperationConverterResult:
    """Return the converted module; raises NotImplementedError for other LSTMs."""
    _refuse(node.attributes, node.input_values)
    inputs = [*node.input_values, *[""] * (PEEPHOLES + 1 - len(node.input_values))]
    module = Lstm(
        _constant(inputs[WEIGHTS], graph),
        _constant(inputs[RECURRENT], graph),
        _constant(inputs[BIASES], graph) if inputs[BIASES] else None,
        len(node.output_values),
    )
    states = (inputs[HIDDEN], inputs[CELL])
    fed = (inputs[X], *states) if any(states) else (inputs[X],)
    return OperationConverterResult(module, OnnxMapping(fed, node.output_values))


def _refuse(attributes: Mapping[str, Any], inputs: tuple[str, ...]) -> None:
    """Raise NotImplementedError for what PyTorch's LSTM does not do."""
    direction = attributes.get("direction", "forward")
    activations = [name.lower() for name in attributes.get("activations", [])]
    present = {place for place, name in enumerate(inputs) if name}
    refused = {
        f"direction {direction}": direction not in DIRECTIONS,
        f"activations {activations}": activations
        not in ([], ACTIVATIONS * DIRECTIONS.get(direction, 1)),
        "activation_alpha": "activation_alpha" in attributes,
        "activation_beta": "activation_beta" in attributes,
        "clip": "clip" in attributes,
        "input_forget": attributes.get("input_forget", 0) != 0,
        "layout": attributes.get("layout", 0) != 0,
        "sequence_lens": LENGTHS in present,
        "peepholes": PEEPHOLES in present,
    }
    for what, is_used in refused.items():
        if is_used:
            raise NotImplementedError(f"LSTM with {what} is not implemented")


def _constant(name: str, graph: Any) -> torch.Tensor:
    try:
        value = get_const_value(name, graph)
    except KeyError as error:
        raise NotImplementedError(f"LSTM whose {name} is computed is not implemented") from error
    assert isinstance(value, torch.Tensor)
    return value
