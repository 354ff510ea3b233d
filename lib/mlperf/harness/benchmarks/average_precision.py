"""Mean average precision as COCO defines it, computed by pycocotools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import HarnessError
from .base import Array


@dataclass(frozen=True, slots=True)
class Detections:
    """What was found in one image.

    ``boxes`` [n, 4] are left, top, width and height in pixels; ``scores`` [n]; ``categories`` [n]
    are those of the data set.
    """

    boxes: Array
    scores: Array
    categories: Array


def mean_average_precision(
    annotations: Mapping[str, Any],
    images: Sequence[Mapping[str, Any]],
    detections: Sequence[Detections],
) -> float:
    """Return the mean over overlaps of 0.5 to 0.95 and over categories, between 0 and 1.

    ``images`` are those of ``annotations``, and one may come several times, each
    time with detections of its own. Raises HarnessError when none of them shows an object.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise HarnessError(f"the accuracy needs the package pycocotools: {error}") from error
    truth = _truth(annotations, images)
    if not truth["annotations"]:
        raise HarnessError(f"no mAP: the {len(images)} images that were answered show no object")
    results = _results(detections)
    if not results:
        return 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = truth
        known.createIndex()
        judged = COCOeval(known, known.loadRes(results), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return float(judged.stats[0])


def _truth(
    annotations: Mapping[str, Any], images: Sequence[Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the data set of just these images, numbered from 1: pycocotools takes 0 for "none"."""
    objects: dict[Any, list[Mapping[str, Any]]] = {}
    for each in annotations["annotations"]:
        objects.setdefault(each["image_id"], []).append(each)
    pairs = [
        (number, each)
        for number, image in enumerate(images, start=1)
        for each in objects.get(image["id"], ())
    ]
    return {
        "images": [{**image, "id": number} for number, image in enumerate(images, start=1)],
        "annotations": [
            {**each, "id": k, "image_id": number} for k, (number, each) in enumerate(pairs, start=1)
        ],
        "categories": list(annotations["categories"]),
    }


def _results(detections: Sequence[Detections]) -> list[dict[str, Any]]:
    return [
        {"image_id": number, "category_id": category, "bbox": box, "score": score}
        for number, each in enumerate(detections, start=1)
        for box, score, category in zip(
            each.boxes.tolist(), each.scores.tolist(), each.categories.tolist(), strict=True
        )
    ]
