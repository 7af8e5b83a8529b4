"""Losses between sets and decision-focused losses, with the solver inside the compiled step."""

from jaxmatch.losses.boxes import box_area as box_area
from jaxmatch.losses.boxes import box_cxcywh_to_xyxy as box_cxcywh_to_xyxy
from jaxmatch.losses.boxes import box_iou as box_iou
from jaxmatch.losses.boxes import box_xyxy_to_cxcywh as box_xyxy_to_cxcywh
from jaxmatch.losses.boxes import elementwise_box_iou as elementwise_box_iou
from jaxmatch.losses.boxes import elementwise_generalized_box_iou as elementwise_generalized_box_iou
from jaxmatch.losses.boxes import generalized_box_iou as generalized_box_iou
from jaxmatch.losses.detection import DetectionCriterion as DetectionCriterion
from jaxmatch.losses.detection import DetectionLoss as DetectionLoss
from jaxmatch.losses.detection import sigmoid_focal_loss as sigmoid_focal_loss
from jaxmatch.losses.groups import one_to_many as one_to_many
from jaxmatch.losses.groups import split_groups as split_groups
from jaxmatch.losses.hungarian import HungarianLoss as HungarianLoss
from jaxmatch.losses.hungarian import gather_matched as gather_matched
from jaxmatch.losses.hungarian import hungarian_loss as hungarian_loss
from jaxmatch.losses.hungarian import hungarian_matching as hungarian_matching
from jaxmatch.losses.hungarian import matched_loss as matched_loss
from jaxmatch.losses.permutation_invariant import negative_si_snr as negative_si_snr
from jaxmatch.losses.permutation_invariant import (
    permutation_invariant_loss as permutation_invariant_loss,
)
from jaxmatch.losses.segmentation import dice_cost as dice_cost
from jaxmatch.losses.segmentation import dice_loss as dice_loss
from jaxmatch.losses.segmentation import sigmoid_mask_cost as sigmoid_mask_cost
from jaxmatch.losses.segmentation import sigmoid_mask_loss as sigmoid_mask_loss
from jaxmatch.losses.structured import Regret as Regret
from jaxmatch.losses.structured import StructuredLoss as StructuredLoss
from jaxmatch.losses.structured import fenchel_young_loss as fenchel_young_loss
from jaxmatch.losses.structured import perturbation_gradient_loss as perturbation_gradient_loss
from jaxmatch.losses.structured import regret as regret
from jaxmatch.losses.structured import spo_plus_loss as spo_plus_loss
from jaxmatch.losses.transport import earth_mover_distance as earth_mover_distance
from jaxmatch.losses.wasserstein import histogram_distance as histogram_distance
from jaxmatch.losses.wasserstein import wasserstein_1d as wasserstein_1d


__all__ = [
    "DetectionCriterion",
    "DetectionLoss",
    "HungarianLoss",
    "Regret",
    "StructuredLoss",
    "box_area",
    "box_cxcywh_to_xyxy",
    "box_iou",
    "box_xyxy_to_cxcywh",
    "dice_cost",
    "dice_loss",
    "earth_mover_distance",
    "elementwise_box_iou",
    "elementwise_generalized_box_iou",
    "fenchel_young_loss",
    "gather_matched",
    "generalized_box_iou",
    "histogram_distance",
    "hungarian_loss",
    "hungarian_matching",
    "matched_loss",
    "negative_si_snr",
    "one_to_many",
    "permutation_invariant_loss",
    "perturbation_gradient_loss",
    "regret",
    "sigmoid_focal_loss",
    "sigmoid_mask_cost",
    "sigmoid_mask_loss",
    "split_groups",
    "spo_plus_loss",
    "wasserstein_1d",
]
