"""The strictness that every group of the experiment file shares."""

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """No unknown key, no quoted number, no infinity; the sentence after a field is its explanation."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
