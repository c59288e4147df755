import { userInfo } from 'node:os';

/** Returns the operator's name for sync.audit: the user name on this machine. */
export function readOperatorName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user often has no entry in /etc/passwd. Then only its number is known.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
