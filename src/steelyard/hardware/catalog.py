"""The GPU catalog: dense peaks by precision, and memory.

Peaks are dense (without structured sparsity), in TFLOP/s, from the vendors' data sheets, and checked against units x
clock x operations per clock. Products are accumulated in fp32, as in training; GeForce cards do that at half of their
advertised rate. `fp32` is the fastest rate for fp32 matrices: TF32 tensor cores where the GPU has them.

One entry is one device as torch and JAX count devices. An MI250X is two devices (GCDs), and so is a TPU v7 chip; their
figures are per device.

Memory is the total that the runtime reports, in GiB. A bare name such as h100 is the SXM module.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

CPU = "cpu"
"""The platform name for training without a GPU; its peak is unknown."""
PRECISIONS = ("bf16", "fp16", "fp8", "fp4", "fp32")
"""Formats of matrix products that a peak is given for."""
CATALOG = "catalog"
"""The source of figures from this catalog."""
_WITH_CONTAINERS = ("nvidia", "amd")
"""Vendors whose GPUs can be planned for; results of others can be judged."""


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """One type of GPU. A peak that is missing is unknown, never zero, and so is memory that is None."""

    name: str
    vendor: str
    peaks: Mapping[str, float]
    """Dense TFLOP/s by precision."""
    usable_gib: float | None
    aliases: tuple[str, ...] = ()
    """Names that the vendor's tools, torch or JAX print, and other spellings."""
    ecc_gib: float | None = None
    """Memory with ECC on, for cards whose ECC takes part of it; `usable_gib` is then without ECC."""
    variants: tuple[str, ...] = ()
    """Entries that this name may mean too: it leaves the size of the memory open."""
    stated_by: str | None = None
    """Who states its peaks, if not the catalog: an option or a file. Formats without a peak may then have one."""

    def peak_tflops(self, precision: str) -> float | None:
        """The dense peak in `precision`; None if it is unknown."""
        return self.peaks.get(precision)

    @property
    def half_format(self) -> str:
        """The 16-bit format for training: bf16, or fp16 on GPUs without bf16."""
        return "bf16" if "bf16" in self.peaks or "fp16" not in self.peaks else "fp16"

    @property
    def half_tflops(self) -> float:
        """The peak in that format; 0 if it is unknown."""
        return self.peaks.get(self.half_format, 0.0)

    @property
    def sizes_gib(self) -> tuple[float, ...]:
        """Its memory, or that of each variant."""
        variants = [lookup(name) for name in self.variants]
        return tuple(gpu.usable_gib for gpu in (self, *variants) if gpu is not None and gpu.usable_gib is not None)

    @property
    def plannable(self) -> bool:
        return self.vendor in _WITH_CONTAINERS

    def includes(self, other: "Gpu") -> bool:
        """Whether the other GPU is this one, or a variant of it."""
        return other is self or other.name in self.variants


def _tensor(bf16: float, fp8: float | None = None, fp32: float | None = None) -> dict[str, float]:
    """Peaks of a GPU with the same rate for bf16 and fp16. `fp32` is half of it on NVIDIA's tensor cores (TF32)."""
    return {"bf16": bf16, "fp16": bf16, **({"fp8": fp8} if fp8 else {}), "fp32": fp32 or bf16 / 2}


def _volta(fp16: float, fp32: float) -> dict[str, float]:
    return {"fp16": fp16, "fp32": fp32}  # no bf16 and no TF32


def _instinct(*products: str) -> tuple[str, ...]:
    return tuple(f"amd instinct {product}" for product in products)


def _geforce(product: str) -> tuple[str, ...]:
    return product, f"geforce {product}", f"nvidia geforce {product}"


def _tpu(bf16: float, fp8: float | None = None) -> dict[str, float]:
    return {"bf16": bf16, **({"fp8": fp8} if fp8 else {})}  # fp32 products are made of several bf16 ones


_HOPPER, _HOPPER_PCIE = _tensor(989.4, 1978.9), _tensor(756.4, 1512.9)
_HOPPER_NVL, _GRACE_HOPPER = _tensor(835.5, 1671.0), _tensor(989.0, 1979.0)
_AMPERE = _tensor(312.0)
_V100 = ("v100-sxm2-16gb", "v100-sxm2-32gb")
_MI350X = _instinct("mi350x", "mi350x oam", "mi350 oam")
_MI355X = _instinct("mi355x", "mi355x oam", "mi355 oam")
_CDNA2 = 63.98
"""Memory of one GCD, in GiB."""

# Each line ends with its derivation, or with its source where a data sheet limits the rate further.
CATALOGUED = (
    # The usual ones come first, because messages list them in this order. NVIDIA: data sheets, HGX per GPU.
    Gpu("a100", "nvidia", _AMPERE, 79.3, ("a100 80gb", "nvidia a100 sxm4 80gb", "a100 sxm4 80gb")),  # 108 x 1.41 x 2048
    Gpu("h100", "nvidia", _HOPPER, 79.1, ("h100 sxm", "h100 80gb", "nvidia h100 80gb hbm3")),  # 132 x 1.83 x 4096
    Gpu("h200", "nvidia", _HOPPER, 139.8, ("h200 sxm", "nvidia h200")),
    Gpu("gh200", "nvidia", _GRACE_HOPPER, None, variants=("gh200-96gb", "gh200-144gb")),
    Gpu("b200", "nvidia", _tensor(2250.0, 4500.0), 178.35, ("nvidia b200",)),
    # AMD: data sheets. 304 x 2.1 x 2048; 256 x 2.2 and 2.4 x 4096, without TF32.
    Gpu("mi300x", "amd", _tensor(1307.4, 2614.9), 191.98, _instinct("mi300x", "mi300x oam")),
    Gpu("mi325x", "amd", _tensor(1307.4, 2614.9), 255.98, ("mi325", *_instinct("mi325x", "mi325x oam", "mi325 oam"))),
    Gpu("mi350x", "amd", _tensor(2306.9, 4613.7, 144.2), 287.98, ("mi350", *_MI350X)),
    Gpu("mi355x", "amd", _tensor(2516.6, 5033.2, 157.3), 287.98, ("mi355", *_MI355X)),
    # NVIDIA Volta: data sheets 125 (SXM2), 112 (PCIe), 130 (V100S).
    Gpu("v100", "nvidia", _volta(125.0, 15.7), None, ("v100 sxm2",), variants=_V100),  # 80 x 1.53 GHz x 1024
    Gpu("v100-sxm2-16gb", "nvidia", _volta(125.0, 15.7), 15.78, ("tesla v100 sxm2 16gb", "nvidia v100 sxm2 16gb")),
    Gpu("v100-sxm2-32gb", "nvidia", _volta(125.0, 15.7), 31.75, ("tesla v100 sxm2 32gb", "nvidia v100 sxm2 32gb")),
    Gpu("v100-pcie-16gb", "nvidia", _volta(112.0, 14.0), 15.78, ("tesla v100 pcie 16gb",)),  # 80 x 1.37 x 1024
    Gpu("v100-pcie-32gb", "nvidia", _volta(112.0, 14.0), 31.75, ("tesla v100 pcie 32gb",)),
    Gpu("v100s", "nvidia", _volta(130.0, 16.4), 31.75, ("tesla v100s pcie 32gb",)),  # 80 x 1.597 x 1024
    # NVIDIA Ampere: data sheets of A100, A10 and A40; GA102 white paper for the RTX 3090.
    Gpu("a100-40gb", "nvidia", _AMPERE, 39.59, ("nvidia a100 sxm4 40gb", "a100 sxm4 40gb")),
    Gpu("a100-pcie", "nvidia", _AMPERE, 79.3, ("nvidia a100 80gb pcie", "a100 80gb pcie", "a100 pcie 80gb")),
    Gpu("a100-pcie-40gb", "nvidia", _AMPERE, 39.59, ("nvidia a100 pcie 40gb",)),
    Gpu("a800", "nvidia", _AMPERE, 79.3, ("nvidia a800 sxm4 80gb",)),  # an A100 with a slower NVLink
    Gpu("a10", "nvidia", _tensor(125.0), 23.69, ("nvidia a10",), 22.2),  # 72 x 1.695 x 1024
    Gpu("a40", "nvidia", _tensor(149.7), 47.54, ("nvidia a40",), 44.55),  # 84 x 1.74 x 1024
    Gpu("rtx3090", "nvidia", _tensor(71.2), 24.0, _geforce("rtx 3090")),  # 82 x 1.695 x 512
    # NVIDIA Ada: data sheets of L4, L40 and L40S; Ada white paper for the RTX 4090. fp8 accumulates in fp32.
    Gpu("l4", "nvidia", _tensor(121.0, 242.0), 23.66, ("nvidia l4",), 22.1),  # 58 x 2.04 x 1024
    Gpu("l40", "nvidia", _tensor(181.0, 362.0), 47.7, ("nvidia l40",), 44.6),  # half of an L40S, by its data sheet
    Gpu("l40s", "nvidia", _tensor(362.0, 733.0), 47.7, ("nvidia l40s",), 44.6),  # 142 x 2.52 x 1024
    Gpu("rtx4090", "nvidia", _tensor(165.2, 330.3), 24.0, _geforce("rtx 4090")),  # 128 x 2.52 x 512
    # NVIDIA Hopper: data sheets. H800 differs from H100 in NVLink and fp64; H20 is limited to 148.
    Gpu("h100-pcie", "nvidia", _HOPPER_PCIE, 79.2, ("nvidia h100 pcie",)),  # 114 x 1.62 x 4096
    Gpu("h100-nvl", "nvidia", _HOPPER_NVL, 93.6, ("nvidia h100 nvl",)),  # data sheet: 1671 sparse
    Gpu("h200-nvl", "nvidia", _HOPPER_NVL, 140.4, ("nvidia h200 nvl",)),  # data sheet: 1671 sparse
    Gpu("h800", "nvidia", _HOPPER, 79.2, ("h800 sxm", "nvidia h800")),
    Gpu("h800-pcie", "nvidia", _HOPPER_PCIE, 79.2, ("nvidia h800 pcie",)),
    Gpu("h20", "nvidia", _tensor(148.0, 296.0), 95.58, ("nvidia h20",)),
    Gpu("h20-141gb", "nvidia", _tensor(148.0, 296.0), 140.4, ("nvidia h20 3e", "h20 3e")),
    # 480GB and 120GB are sizes of the CPU's memory.
    Gpu("gh200-96gb", "nvidia", _GRACE_HOPPER, 95.58, ("nvidia gh200 480gb", "nvidia gh200 120gb")),
    Gpu("gh200-144gb", "nvidia", _GRACE_HOPPER, 142.5, ("nvidia gh200 144g hbm3e",)),
    # NVIDIA Blackwell: data sheets, HGX per GPU; RTX Blackwell white paper for the RTX 5090.
    Gpu("gb200", "nvidia", _tensor(2500.0, 5000.0), 186.0, ("nvidia gb200",)),
    Gpu("b300", "nvidia", _tensor(2250.0, 4500.0), 268.6, ("nvidia b300 sxm6 ac", "nvidia b300")),
    Gpu("gb300", "nvidia", _tensor(2500.0, 5000.0), 278.0, ("nvidia gb300",)),
    Gpu("rtx5090", "nvidia", _tensor(209.5, 419.0), 31.84, _geforce("rtx 5090")),  # 170 x 2.407 x 512
    # AMD: data sheets; units x clock x operations. "AMD Instinct MI250X/MI250" names two cards and is unknown.
    Gpu("mi210", "amd", _tensor(181.0, fp32=45.3), _CDNA2, _instinct("mi210")),  # 104 x 1.7 x 1024
    Gpu("mi250", "amd", _tensor(181.0, fp32=45.3), _CDNA2, _instinct("mi250")),  # per GCD, as above
    Gpu("mi250x", "amd", _tensor(191.5, fp32=47.9), _CDNA2, _instinct("mi250x")),  # per GCD: 110 x 1.7 x 1024
    Gpu("mi300a", "amd", _tensor(980.6, 1961.2), 128.0, _instinct("mi300a")),  # 228 x 2.1 x 2048; shared with the CPU
    # Intel: white papers. MMEs x 256 x 256 x 2 x clock: 2 x 1.65 GHz, 8 x 1.6 GHz.
    Gpu("gaudi2", "intel", {"bf16": 432.0, "fp8": 865.0}, 94.62, ("gaudi 2", "intel gaudi 2", "hl 225")),
    Gpu("gaudi3", "intel", {"bf16": 1677.7, "fp8": 1677.7}, 128.0, ("gaudi 3", "intel gaudi 3", "hl 325l")),
    # Google: cloud.google.com/tpu/docs. Memory as JAX reports it, or of the chip.
    Gpu("tpu-v4", "google", _tpu(275.0), 32.0, ("tpu v4",)),
    Gpu("tpu-v5e", "google", _tpu(197.0), 16.0, ("tpu v5e", "tpu v5 lite")),
    Gpu("tpu-v5p", "google", _tpu(459.0, 459.0), 95.74, ("tpu v5p", "tpu v5")),
    Gpu("tpu-v6e", "google", _tpu(918.0, 918.0), 32.0, ("tpu v6e", "tpu v6 lite", "trillium")),
    Gpu("tpu-v7", "google", _tpu(1153.5, 2307.0), 96.0, ("tpu v7", "tpu7x", "ironwood")),  # half of a chip
)


def normal_name(name: str) -> str:
    """A name without differences of case, spaces, dashes and underscores."""
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


_BY_NAME = {normal_name(spelling): gpu for gpu in CATALOGUED for spelling in (gpu.name, *gpu.aliases)}
assert all(_BY_NAME[normal_name(name)] is gpu for gpu in CATALOGUED for name in (gpu.name, *gpu.aliases)), (
    "two GPUs have the same name"
)


def lookup(name: str) -> Gpu | None:
    """The GPU of that name or alias. Only whole names match: an H100 PCIe is not an H100 SXM."""
    return _BY_NAME.get(normal_name(name))


def same_gpu(name: str, other: str) -> bool:
    """Whether two names mean one GPU; a name that leaves its variant open means each of them."""
    gpu, another = lookup(name), lookup(other)
    if gpu is None or another is None:
        return gpu is another
    return gpu.includes(another) or another.includes(gpu)


def nearest_gpu(name: str) -> str | None:
    """The GPU that an incomplete name means, such as mi300x for mi300. A GB200 is another GPU than a B200: None."""
    typed = re.sub(r"nvidia|amd|instinct|[\W_]", "", name.lower())
    return next((gpu.name for gpu in CATALOGUED if re.fullmatch(f"{typed}[a-z]?", gpu.name)), None)


def known_names() -> tuple[str, ...]:
    """Names of all GPUs in the catalog."""
    return tuple(gpu.name for gpu in CATALOGUED)
