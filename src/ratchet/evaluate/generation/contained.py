"""An evaluator whose function runs in a sandbox, for code that nobody has reviewed yet."""

from __future__ import annotations

from typing import Any

from ratchet.evaluate.generation.proposal import ProposedEvaluator, arguments_of
from ratchet.sandbox import SandboxPool, call
from ratchet.types import AgentError
from ratchet.worker.evaluator import FunctionEvaluator


def contained_evaluator(proposal: ProposedEvaluator, pool: SandboxPool) -> FunctionEvaluator:
    """The proposed function as an evaluator; each verdict is a call in the sandbox.

    Args:
        proposal: A proposal with a source.
        pool: An open pool of `function_pool`.

    Raises:
        InputError: The source does not define the function, or it asks for what it cannot have.
    """
    parameters = arguments_of(proposal.source, proposal.name)

    async def verdict(**has: Any) -> Any:
        arguments = {name: has[name] for name in parameters}
        result = await call(proposal.source, proposal.name, kwargs=arguments, pool=pool)
        if result.status != "ok":
            raise AgentError(result.error)
        return result.value

    async def by_output(output: Any, input: Any, metadata: Any) -> Any:
        return await verdict(output=output, input=input, metadata=metadata)

    async def by_expected(output: Any, expected: Any, input: Any, metadata: Any) -> Any:
        return await verdict(output=output, expected=expected, input=input, metadata=metadata)

    judge = by_expected if "expected" in parameters else by_output
    return FunctionEvaluator(judge, name=proposal.name, options={"source": proposal.source})
