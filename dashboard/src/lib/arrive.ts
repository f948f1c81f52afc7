// Goes to the place on a page that the address names, also when it is shown only once data has arrived.
import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";

const PATIENCE_MS = 10_000;

export function useArrival(): void {
  const hash = useLocation({ select: (location) => location.hash });
  const key = useLocation({ select: (location) => location.state.__TSR_key });
  useEffect(() => {
    if (!hash) return;
    const go = () => {
      const place = document.getElementById(hash);
      place?.scrollIntoView();
      return place !== null;
    };
    if (go()) return;
    const watch = new MutationObserver(() => go() && stop());
    const timer = setTimeout(() => stop(), PATIENCE_MS);
    const stop = () => {
      watch.disconnect();
      clearTimeout(timer);
      window.removeEventListener("wheel", stop);
    };
    // Whoever scrolls meanwhile wants to be elsewhere.
    window.addEventListener("wheel", stop, { passive: true });
    watch.observe(document.body, { childList: true, subtree: true });
    return stop;
  }, [hash, key]);
}
