// How much work something is, whatever else the machine is busy with: for bounds on what must not grow with its input.

/** Milliseconds of this process's processor time since the call. */
export function cpuTime(): () => number {
  const from = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1_000;
  };
}
