// How values are written on the page.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number with separators; a dash where there is none. */
export function number(value) {
  return known(value) ? WHOLE.format(value) : "–";
}

/** A number in three or four digits. */
export function short(value) {
  if (!known(value)) return "–";
  return Math.abs(value) < 10_000 ? WHOLE.format(Math.round(value * 10) / 10) : SHORT.format(value);
}

/** A number of bytes. */
export function bytes(value) {
  if (!known(value) || value < 0) return "–"; // -1: Flink's documents have a number where there is none
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A span of milliseconds. */
export function duration(value) {
  if (!known(value)) return "–";
  if (value < 10 && value > 0) return `${value < 0.05 ? "0.0" : value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  const seconds = value / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A moment, in the reader's time zone. */
export function moment(value) {
  if (!known(value) || value < 0) return "–";
  const at = new Date(value);
  const two = (part) => String(part).padStart(2, "0");
  return (
    `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
  );
}

/** A watermark: a moment, or what its ends mean. */
export function watermark(value) {
  if (!known(value) || value <= -9223372036854775000) return "none yet";
  if (value >= 9223372036854775000) return "end of stream";
  return moment(value);
}

/** A share of a second in milliseconds, as percent. */
export function share(value) {
  return known(value) ? `${Math.round(value / 10)} %` : "–";
}

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}
