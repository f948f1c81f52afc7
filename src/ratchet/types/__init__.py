"""Core data types: frozen structs without I/O; versioned ones are identified by a content hash."""

from ratchet.types.access import SCOPES, Key, Scope
from ratchet.types.activation import Activation, AgentSettings
from ratchet.types.candidate import Candidate
from ratchet.types.cost import LOCAL_MODELS, Cost, dollars_text, total_cost
from ratchet.types.errors import (
    NOT_FOUND,
    AgentError,
    ConfigError,
    Conflict,
    InputError,
    NotFound,
    RatchetError,
    ShipError,
    StoreError,
    VerificationError,
)
from ratchet.types.experiment import (
    Decision,
    Experiment,
    GuardrailResult,
    LabelledGain,
    Verdict,
)
from ratchet.types.feedback import Feedback, FeedbackKind, fault, is_bad
from ratchet.types.fleet import EndedRollout, EndedRollouts, FleetRunner
from ratchet.types.hashing import canonical_json, content_hash
from ratchet.types.knobs import Bool, Choice, Float, Int, Knob, Value
from ratchet.types.label import (
    RIGHT_FROM,
    Contradiction,
    Drawn,
    Label,
    contradictions,
    label_fault,
)
from ratchet.types.prompt_use import PromptUse
from ratchet.types.release import RELEASE_TRANSITIONS, Release, ReleaseState
from ratchet.types.report_card import CardCheck, CardVerdict, ReportCard
from ratchet.types.resource import (
    Code,
    Declaration,
    Model,
    Params,
    Resource,
    defaults,
    kind_of,
    version_of,
)
from ratchet.types.rollout import (
    FINAL,
    MAX_DELIVERIES,
    ROLLOUT_TRANSITIONS,
    SPOILED,
    Attempt,
    AttemptStatus,
    Cause,
    Claim,
    Outcome,
    Rollout,
    RolloutStatus,
)
from ratchet.types.run import STAGE_TRANSITIONS, Run, Stage
from ratchet.types.score import Score
from ratchet.types.span import Span, SpanEvent, SpanRecord
from ratchet.types.stage import LiveStage, StageDecision, StageVerdict, SubgroupResult
from ratchet.types.task import SPLITS, Dataset, DatasetSummary, Origin, Provenance, Split, Task
from ratchet.types.template import PromptTemplate
from ratchet.types.traffic import Arm, LiveOutcome, TrafficSplit, arm_of

__all__ = [
    "FINAL",
    "LOCAL_MODELS",
    "MAX_DELIVERIES",
    "NOT_FOUND",
    "RELEASE_TRANSITIONS",
    "RIGHT_FROM",
    "ROLLOUT_TRANSITIONS",
    "SCOPES",
    "SPLITS",
    "SPOILED",
    "STAGE_TRANSITIONS",
    "Activation",
    "AgentError",
    "AgentSettings",
    "Arm",
    "Attempt",
    "AttemptStatus",
    "Bool",
    "Candidate",
    "CardCheck",
    "CardVerdict",
    "Cause",
    "Choice",
    "Claim",
    "Code",
    "ConfigError",
    "Conflict",
    "Contradiction",
    "Cost",
    "Dataset",
    "DatasetSummary",
    "Decision",
    "Declaration",
    "Drawn",
    "EndedRollout",
    "EndedRollouts",
    "Experiment",
    "Feedback",
    "FeedbackKind",
    "FleetRunner",
    "Float",
    "GuardrailResult",
    "InputError",
    "Int",
    "Key",
    "Knob",
    "Label",
    "LabelledGain",
    "LiveOutcome",
    "LiveStage",
    "Model",
    "NotFound",
    "Origin",
    "Outcome",
    "Params",
    "PromptTemplate",
    "PromptUse",
    "Provenance",
    "RatchetError",
    "Release",
    "ReleaseState",
    "ReportCard",
    "Resource",
    "Rollout",
    "RolloutStatus",
    "Run",
    "Scope",
    "Score",
    "ShipError",
    "Span",
    "SpanEvent",
    "SpanRecord",
    "Split",
    "Stage",
    "StageDecision",
    "StageVerdict",
    "StoreError",
    "SubgroupResult",
    "Task",
    "TrafficSplit",
    "Value",
    "Verdict",
    "VerificationError",
    "arm_of",
    "canonical_json",
    "content_hash",
    "contradictions",
    "defaults",
    "dollars_text",
    "fault",
    "is_bad",
    "kind_of",
    "label_fault",
    "total_cost",
    "version_of",
]
