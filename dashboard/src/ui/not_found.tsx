import { Link } from "@tanstack/react-router";
import { Page } from "./basics";

export function NotFound() {
  return (
    <Page title="Nothing here">
      <p>
        This address is no page of the dashboard. Go <Link to="/">home</Link>, or press <kbd>⌘K</kbd> and type the first digits of an id.
      </p>
    </Page>
  );
}
