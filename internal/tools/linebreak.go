package tools

import "unicode"

// Both of Kafka's command-line libraries wrap their help where Java's line iterator would let a line end, and that
// is not only at blanks: after a hyphen, after a full stop within "org.apache.kafka", before an opening bracket.
// So the places where a line may end are those of that iterator, for the characters that help texts are made of.
//
// A piece that must stay together is, in order, all of it optional:
//
//	opening brackets · a core · closing punctuation or hyphens · blanks · a tab or newline
//
// where the core is a run of ordinary characters, or a number, which alone may hold points, commas and a sign: "-1.5".

// breakLine cuts s into the pieces between which a line may end.
func breakLine(s string) []string {
	r := []rune(s)
	var pieces []string
	for at := 0; at < len(r); {
		end := pieceEnd(r, at)
		pieces = append(pieces, string(r[at:end]))
		at = end
	}
	return pieces
}

// pieceEnd returns where the piece that begins at i ends; it is always beyond i.
func pieceEnd(r []rune, i int) int {
	skip := func(from int, is func(rune) bool) int {
		for from < len(r) && is(r[from]) {
			from++
		}
		return from
	}
	core := max(skip(skip(i, isOpening), isOrdinary), numberEnd(r, i))
	// An apostrophe binds both ways: no piece ends beside it, as long as no punctuation comes first.
	for core < len(r) && core > i && r[core-1] == '\'' && isOpening(r[core]) {
		core = skip(skip(core, isOpening), isOrdinary)
	}
	end := skip(core, isApostrophe)
	switch {
	case end == len(r):
		return end
	case isHyphen(r[end]):
		end = skip(skip(end, isHyphen), isApostrophe)
	case isClosing(r[end]):
		end = skip(end, func(c rune) bool { return isClosing(c) || isApostrophe(c) })
	}
	if end < len(r) && end > core && r[end-1] == '\'' && isOrdinary(r[end]) {
		return pieceEnd(r, end)
	}
	end = skip(end, func(c rune) bool { return c == ' ' })
	if end < len(r) && isBreak(r[end]) {
		end++
	}
	return max(end, i+1)
}

// numberEnd returns where a number that begins at i ends, or i if there is none: brackets and signs, digits, and points
// or commas that have digits on both sides.
func numberEnd(r []rune, i int) int {
	at := i
	for at < len(r) && (isOpening(r[at]) || isHyphen(r[at]) || isApostrophe(r[at]) || unicode.Is(unicode.Sc, r[at])) {
		at++
	}
	end := i
	for at < len(r) && unicode.IsDigit(r[at]) {
		for at < len(r) && unicode.IsDigit(r[at]) {
			at++
		}
		end = at
		if at == len(r) || r[at] != '.' && r[at] != ',' {
			break
		}
		at++
	}
	return end
}

func isBreak(c rune) bool      { return c == '\t' || c == '\n' || c == '\f' }
func isHyphen(c rune) bool     { return unicode.Is(unicode.Pd, c) }
func isApostrophe(c rune) bool { return c == '\'' }
func isOpening(c rune) bool {
	return c == '"' || unicode.Is(unicode.Ps, c) || unicode.Is(unicode.Pi, c)
}

func isClosing(c rune) bool {
	switch c {
	case '"', '!', '%', '.', ',', ':', ';', '?':
		return true
	}
	return unicode.Is(unicode.Pe, c) || unicode.Is(unicode.Pf, c)
}

func isOrdinary(c rune) bool {
	return c != ' ' && !isBreak(c) && !isHyphen(c) && !isOpening(c) && !isClosing(c)
}
