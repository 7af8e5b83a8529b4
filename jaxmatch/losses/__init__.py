"""Losses between sets, with the matching solved inside of the compiled step."""

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
from jaxmatch.losses.hungarian import HungarianLoss as HungarianLoss
from jaxmatch.losses.hungarian import gather_matched as gather_matched
from jaxmatch.losses.hungarian import hungarian_loss as hungarian_loss
from jaxmatch.losses.hungarian import hungarian_matching as hungarian_matching
from jaxmatch.losses.hungarian import matched_loss as matched_loss
