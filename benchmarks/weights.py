"""How fast initial weights are drawn, beside torch's own normal generator, and what that means for 8B parameters."""

import time

import torch

from steelyard.trainer.weights import fill_normal

ELEMENTS = 1 << 26
LLAMA_8B = 8_030_261_248


def rate(device: str, ours: bool) -> float:
    out = torch.empty(ELEMENTS, device=device)
    for attempt in range(3):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        if ours:
            fill_normal(out, f"attempt {attempt}", 42, 0.02)
        else:
            out.normal_(std=0.02)
        if device == "cuda":
            torch.cuda.synchronize()
        taken = time.perf_counter() - began
    return ELEMENTS / taken


def main() -> None:
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        ours, theirs = rate(device, ours=True), rate(device, ours=False)
        where = f"{torch.get_num_threads()} threads" if device == "cpu" else torch.cuda.get_device_name()
        print(
            f"{device} ({where}): {ours / 1e6:.0f} M elements/s, {ours / theirs:.2f} x torch.normal_; "
            f"Llama-3.1-8B in {LLAMA_8B / ours:.1f} s"
        )


if __name__ == "__main__":
    main()
