/** Returns true if version `left` is older than version `right`, both x.y.z. */
export function isOlder(left: string, right: string): boolean {
  const [leftParts, rightParts] = [left, right].map((text) => text.split('.').map(Number));
  for (let index = 0; index < 3; index++) {
    const difference = (leftParts?.[index] ?? 0) - (rightParts?.[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
