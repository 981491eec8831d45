// Simple sums for the offline model: numbers, + - * / % ^ and brackets. Text → number, or null when it is no sum.

const MAX_LENGTH = 200;
type Operator = readonly [strength: number, apply: (a: number, b: number) => number];
const OPERATORS: Readonly<Record<string, Operator>> = {
  "+": [1, (a, b) => a + b],
  "-": [1, (a, b) => a - b],
  "*": [2, (a, b) => a * b],
  "/": [2, (a, b) => a / b],
  "%": [2, (a, b) => a % b],
  "^": [3, (a, b) => a ** b],
};

/** The value, or null for text that is no sum, is too long or has no finite value. */
export function calculate(text: string): number | null {
  const plain = text.replaceAll("×", "*").replaceAll("÷", "/").replaceAll("−", "-");
  if (plain.length > MAX_LENGTH || !/^[\d\s.+*/%^()-]+$/.test(plain)) return null;
  const tokens = plain.match(/\d+(?:\.\d+)?|\.\d+|[^\s\d]/g) ?? [];
  const value = readSum(tokens, 0);
  return tokens.length === 0 && value !== null && Number.isFinite(value) ? Number(value.toPrecision(12)) : null;
}

/** Takes as much from the front as binds at least this strongly. */
function readSum(tokens: string[], strength: number): number | null {
  let left = readValue(tokens);
  while (left !== null) {
    const operator = OPERATORS[tokens[0] ?? ""];
    if (operator === undefined || operator[0] <= strength) break;
    tokens.shift();
    // 2^3^2 is 2^(3^2): only here the right side may bind as strongly.
    const right = readSum(tokens, operator[0] === 3 ? 2 : operator[0]);
    left = right === null ? null : operator[1](left, right);
  }
  return left;
}

function readValue(tokens: string[]): number | null {
  const token = tokens.shift();
  if (token === "-") {
    const value = readSum(tokens, 2);
    return value === null ? null : -value;
  }
  if (token === "(") {
    const value = readSum(tokens, 0);
    return tokens.shift() === ")" ? value : null;
  }
  return token !== undefined && /\d/.test(token) ? Number(token) : null;
}
