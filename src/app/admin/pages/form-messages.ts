/** The messages after an action, by a word in the address. Nothing else of the address is shown. */
export const formMessages: Readonly<Record<string, string>> = {
  retry: 'The row will be sent again.',
  done: 'The row is marked as done.',
  cancel: 'The row is cancelled. Later rows of its lane can be sent.',
  replace: 'The payload is replaced. The row is pending.',
  pause: 'The job is paused. A run under way will finish.',
  resume: 'The job is resumed. One run makes up for all missed runs.',
  run: 'The job is due now. A worker starts it within seconds, unless its client is held.',
};
