// The words by which a new thing to do is told from more of the same: "read a.md and b.md" is one, "read a.md and wait" two.

export const VERBS =
  "read|open|list|search|grep|find|write|run|execute|fetch|remember|wait|sleep|summari[sz]e|describe|review|explore|count\\s+to|count\\s+the|spawn|ask(?=\\s+me\\b)|send(?=\\s+me\\b)";
