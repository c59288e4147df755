/** Sends orders with a bare loop around undici. */
import { numbers, post, rivalOptions } from './post.ts';

const waiting = [...numbers];
const lane = async () => {
  for (let number = waiting.shift(); number !== undefined; number = waiting.shift())
    await post(number);
};
await Promise.all(Array.from({ length: rivalOptions.concurrency }, lane));
process.exit(0);
