import { InvalidArgumentError } from 'commander';
import { polledStreams } from '../../../config/jobs.ts';

/** Names of the streams, for help. Commands check the names themselves. */
export const streamNames = Object.values(polledStreams);

/** Waits for a command, and makes its result the exit code of the process. */
export async function setExitCode(command: Promise<number>): Promise<void> {
  process.exitCode = await command;
}

/**
 * Reads the value of an option as a whole number.
 * @throws InvalidArgumentError if it is not a whole number of at most 9 digits
 */
export function parseWholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}
