/** A loop around undici, and nothing else. */
import { numbers, post, told } from './post.ts';

const waiting = [...numbers];
const lane = async () => {
  for (let number = waiting.shift(); number !== undefined; number = waiting.shift()) await post(number);
};
await Promise.all(Array.from({ length: told.concurrency }, lane));
process.exit(0);
