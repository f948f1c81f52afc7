"""Trains a model at a hosted service: uploads data, starts the job, and waits for its result."""

from ratchet.weights.hosted.job import HostedJob, HostedState, job_for
from ratchet.weights.hosted.job_folder import JobFolder
from ratchet.weights.hosted.service import (
    HostedFailure,
    HostedProvider,
    HostedService,
    HostedSettings,
    JobReport,
    cancel,
    follow,
)
from ratchet.weights.hosted.services import address_of, connect

__all__ = [
    "HostedFailure",
    "HostedJob",
    "HostedProvider",
    "HostedService",
    "HostedSettings",
    "HostedState",
    "JobFolder",
    "JobReport",
    "address_of",
    "cancel",
    "connect",
    "follow",
    "job_for",
]
