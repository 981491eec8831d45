// The route of what was used.
import { json, problem, type Route, type WebRequest } from "./http.ts";
import { USAGE_BY, USAGE_DAYS, type UsageDesk } from "./usage.ts";

export const createUsageRoutes = (desk: UsageDesk): Route[] => [
  { method: "GET", path: "/api/usage", access: "token", handle: (request) => read(request, desk) },
];

async function read({ query }: WebRequest, desk: UsageDesk) {
  const days = USAGE_DAYS.find((count) => String(count) === (query.get("days") ?? "30"));
  const by = USAGE_BY.find((name) => name === (query.get("by") ?? "all"));
  if (days === undefined || by === undefined)
    return problem(400, `days is one of ${USAGE_DAYS.join(", ")}, by one of ${USAGE_BY.join(", ")}.`);
  return json(200, await desk.read({ days, by }));
}
