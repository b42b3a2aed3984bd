"""PyTensor Ops of compiled kernels, which JAX evaluates by calls of their compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    DisconnectedType,
    JAXOp,
    MissingInputError,
    NullType,
    disconnected_type,
    get_jaxified_graph,
)
from ppdinf.errors import ModelError


class CallbackOp(JAXOp):
    """An Op that JAX evaluates by `perform` and differentiates by `pullback`."""

    __props__: tuple[str, ...] = ()
    name = None

    def __init__(self) -> None:
        pass

    def perform_jax(self, *inputs: Any) -> Any:
        """Call `perform` on the values of JAX arrays; those that JAX does not trace are constants."""
        import jax

        if not jax.config.jax_enable_x64:
            raise ModelError("densities of tables need 64 bits: jax.config.update('jax_enable_x64', True)")
        inputs = tuple(
            jax.numpy.asarray(x, dtype="float64" if jax.numpy.result_type(x).kind == "f" else "int64") for x in inputs
        )
        traced = [i for i, x in enumerate(inputs) if isinstance(x, jax.core.Tracer)]
        values = [x if i in traced else np.asarray(x) for i, x in enumerate(inputs)]
        node = self.make_node(
            *(pt.tensor(dtype=x.dtype, shape=x.shape) if i in traced else pt.constant(x) for i, x in enumerate(values))
        )
        results = [
            jax.ShapeDtypeStruct(shape, x.type.dtype) for shape, x in zip(self._shapes(node), node.outputs, strict=True)
        ]

        def compiled(*arguments: Any) -> list[Any]:
            complete, storage = list(values), [[None] for _ in results]
            for i, x in zip(traced, arguments, strict=True):
                complete[i] = np.asarray(x)
            self.perform(node, complete, storage)
            return [x for (x,) in storage]

        @jax.custom_vjp
        def call(*arguments: Any) -> list[Any]:
            return jax.pure_callback(compiled, results, *arguments, vmap_method="sequential")

        def forwards(*primals: Any) -> tuple[list[Any], Any]:
            arguments = [x.value for x in primals]
            outputs = call(*arguments)
            return outputs, (arguments, outputs)

        def backwards(known: Any, cotangents: Any) -> tuple[Any, ...]:
            arguments, outputs = known
            zero = [isinstance(x, jax.custom_derivatives.SymbolicZero) for x in cotangents]
            given = [x.type() for x in node.outputs]
            flows = [disconnected_type() if no else x.type() for no, x in zip(zero, node.outputs, strict=True)]
            gradients = [self.pullback(node.inputs, given, flows)[i] for i in traced]
            for x in gradients:
                if isinstance(x.type, NullType):
                    raise ModelError(x.type.why_null)
            flowing = [x for x in flows if not isinstance(x.type, DisconnectedType)]
            connected = [x for x in gradients if not isinstance(x.type, DisconnectedType)]
            function = get_jaxified_graph([*(node.inputs[i] for i in traced), *given, *flowing], connected)
            nonzero = [x for no, x in zip(zero, cotangents, strict=True) if not no]
            found = iter(function(*arguments, *outputs, *nonzero))
            return tuple(None if isinstance(x.type, DisconnectedType) else next(found) for x in gradients)

        call.defvjp(forwards, backwards, symbolic_zeros=True)
        outputs = call(*(inputs[i] for i in traced))
        return outputs[0] if len(outputs) == 1 else outputs

    def _shapes(self, node: Any) -> list[tuple[int, ...]]:
        """Return the shapes of outputs, which JAX must know before it runs."""
        shapes = self.infer_shape(node, [x.type.shape for x in node.inputs])
        try:
            return [tuple(int(pt.as_tensor(n).eval(mode="FAST_COMPILE")) for n in shape) for shape in shapes]
        except MissingInputError:
            raise ModelError(
                f"JAX must know the constants of {self} when it compiles: replace shared variables by constants, as "
                "pm.sample(nuts_sampler='numpyro') does"
            ) from None
