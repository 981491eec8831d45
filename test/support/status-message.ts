/** A batch's status message, which may be due at any moment: it says how many are at work and have ended, and answers nobody. */
export const isStatusMessage = (text: string): boolean => /^[▶💤⏳❓✓✗⏹] \d/u.test(text);
