"""Trains a model at a hosted service: upload, start, watch, and what came of it."""

from ratchet.weights.hosted.job import HostedJob, HostedState, job_for
from ratchet.weights.hosted.job_folder import JobFolder
from ratchet.weights.hosted.service import HostedFailure, HostedService, cancel, follow
from ratchet.weights.hosted.services import SERVICES, HostedSettings, address_of, connect

__all__ = [
    "SERVICES",
    "HostedFailure",
    "HostedJob",
    "HostedService",
    "HostedSettings",
    "HostedState",
    "JobFolder",
    "address_of",
    "cancel",
    "connect",
    "follow",
    "job_for",
]
