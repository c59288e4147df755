/** What a page says after a form was sent, by a word in its address: nothing else of the address is ever shown. */
export const sayings: Readonly<Record<string, string>> = {
  retry: 'The row is sent again.',
  done: 'The row is marked as done.',
  cancel: 'The row is cancelled; its lane is free.',
  replace: 'The row has its new payload and is pending.',
  pause: 'The job is paused; what is under way is finished.',
  resume: 'The job goes on; what it missed is made good by one run.',
  run: 'The job is due now; a worker takes it up within seconds, unless its client is held.',
};
