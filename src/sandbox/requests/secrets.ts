/** Parts of the names of members and parameters whose values are secret, such as `password` and `access_token`. */
const secretName = /password|passwd|secret|token|authorization|api_?key/i;
const jsonMember = /"([\w.-]+)"(\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s,}\]"{[]+)/g;
const formMember = /(^|[&?;\s"'])([\w.%[\]-]+)=[^&\s"']*/g;
const bearer = /(\bbearer\s+)[\w.~+/=-]+/gi;

/** What a reader sees instead of a secret. */
const hidden = '***';

/**
 * Replaces the secrets in a query, a body or an answer. The log and the page show nothing that was not treated so.
 * @param mark the text that replaces each secret
 */
export function hideSecrets(text: string, mark = hidden): string {
  return text
    .replace(jsonMember, (member: string, name: string, colon: string) =>
      secretName.test(name) ? `"${name}"${colon}"${mark}"` : member,
    )
    .replace(formMember, (member: string, before: string, name: string) =>
      secretName.test(name) ? `${before}${name}=${mark}` : member,
    )
    .replace(bearer, (_, start: string) => start + mark);
}
