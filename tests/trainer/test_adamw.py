"""Our AdamW is PyTorch's, on decayed and undecayed parameters."""

from typing import Any

import pytest
import torch

from steelyard.trainer import adamw
from steelyard.trainer.adamw import AdamW
from steelyard.trainer.model import Decoder
from steelyard.trainer.store import Store

pytestmark = pytest.mark.torch


def build(spec: Any, dtype: torch.dtype = torch.float32) -> tuple[Decoder, Store, AdamW]:
    with torch.device("meta"):
        model = Decoder(spec.model, recompute=False)
    store = Store(model, dtype, torch.float32, ranks=1)
    optimizer = AdamW(store, 0, store.weights.numel(), spec.training, compiled=False)
    store.initialize(model, 1, 0.02, optimizer.remainder, 0)
    return model, store, optimizer


@pytest.mark.parametrize("chunk", [1000, 1 << 25])
def test_it_steps_as_torch_does_and_leaves_norms_undecayed(
    spec: Any, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adamw, "_CHUNK", chunk)
    model, store, optimizer = build(spec("tiny-gpt"))
    twins = {name: parameter.detach().clone().requires_grad_() for name, parameter in model.named_parameters()}
    matrices = [twin for twin in twins.values() if twin.ndim >= 2]
    vectors = [twin for twin in twins.values() if twin.ndim < 2]
    reference = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=0.01,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        store.gradients.normal_(generator=generator)
        for name, parameter in model.named_parameters():
            piece = next(piece for piece in store.pieces if piece.name == name)
            twins[name].grad = store.gradients[piece.start : piece.end].view(parameter.shape).clone()
        optimizer.step(0.01, torch.ones(()))
        reference.step()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, twins[name], rtol=2e-5, atol=1e-7), name


def test_bf16_weights_follow_an_fp32_master_exactly(spec: Any) -> None:
    """The master weight of a bf16 run takes the very steps of an fp32 run that is given the same gradients."""
    from steelyard.trainer.store import join

    _, single, in_single = build(spec())
    _, half, in_half = build(spec(), torch.bfloat16)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        single.gradients.normal_(generator=generator)
        half.gradients.copy_(single.gradients)
        in_single.step(1e-3, torch.ones(()))
        in_half.step(1e-3, torch.ones(()))
    assert in_half.remainder is not None
    master = join(half.weights, in_half.remainder)
    assert torch.allclose(master, single.weights, rtol=1e-6, atol=1e-9)
    assert torch.equal(half.weights, master.to(torch.bfloat16))


def test_the_norm_is_that_of_all_gradients(spec: Any) -> None:
    _, store, optimizer = build(spec())
    store.gradients.normal_()
    assert float(optimizer.squared_norm()) == pytest.approx(float(store.gradients.double().square().sum()), rel=1e-6)
