// Makes what a receiver answered fit to keep: one short line without anything that was sent to it.

/** With a status before it, 336 UTF-16 units are at most 1,012 bytes of UTF-8: below 1 KiB. */
const detailLimit = 336;

/** A word is struck when a run of this many of its characters, or the whole of it when shorter, is private. */
const runLength = 6;
const shortestPrivateWord = 3;

/**
 * A remover of what must not be kept.
 * @param sent the payload, the key and the URL's path and query of the request; a word of theirs in an answer is struck
 * @returns keeps the first line of a text, at most 1 KiB as UTF-8, without control characters
 */
export function redactor(sent: readonly string[]): (text: string) => string {
  const haystack = comparable(sent.flatMap(readings).join('\n'));
  const isPrivate = (word: string): boolean => {
    if (word.length < shortestPrivateWord) return false;
    if (word.length <= runLength) return haystack.includes(word);
    for (let at = 0; at + runLength <= word.length; at += 1) {
      if (haystack.includes(word.slice(at, at + runLength))) return true;
    }
    return false;
  };
  return (text) => {
    const line = text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
    return line
      .slice(0, detailLimit)
      .replace(/[\p{L}\p{M}\p{N}]+/gu, (word) => (isPrivate(comparable(word)) ? '***' : word))
      .replace(/\p{Cc}+/gu, ' ')
      .toWellFormed()
      .trim();
  };
}

/** A text in every form in which a receiver may say it again: as sent, JSON with other escapes, percent-decoded. */
function readings(text: string): string[] {
  const forms = [text];
  try {
    forms.push(JSON.stringify(JSON.parse(text)));
  } catch {}
  try {
    forms.push(decodeURIComponent(text.replaceAll('+', ' ')));
  } catch {}
  return forms;
}

function comparable(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}
