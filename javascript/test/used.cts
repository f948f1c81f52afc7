// Types, as users of `require` write them.
import ratchet = require("agent-ratchet");
ratchet.init({ agent: "booking" });
// @ts-expect-error there is no such option
ratchet.init({ agnet: "booking" });
export = ratchet.feedback({ thumbs: "up", traceId: "x" });
