import { userInfo } from 'node:os';

/** Who did it, for sync.audit: the account on this machine. */
export function operatorName(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without an entry, as containers have: its number is all there is.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
