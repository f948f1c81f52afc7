"""The policy: a base model with LoRA adapters, served so that its answers can be trained on."""

from ratchet.models.policy.adapter_folder import adapter_hash
from ratchet.models.policy.base import Base, load_base
from ratchet.models.policy.server import PolicyServer

__all__ = ["Base", "PolicyServer", "adapter_hash", "load_base"]
