// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"bytes"
	"encoding/json"
)

// jsonTypeMeta reads apiVersion and kind of a JSON object and stops as soon as it has both, because an API server
// writes them first. It skips other members without decoding or checking them.
func jsonTypeMeta(data []byte) (found typeMeta) {
	c := jsonCursor{rest: data}
	if !c.take('{') {
		return typeMeta{}
	}
	for {
		name, ok := c.stringSpan()
		if !ok || !c.take(':') {
			return typeMeta{}
		}
		switch jsonText(name) {
		case "apiVersion":
			span, ok := c.stringSpan()
			if !ok {
				return typeMeta{}
			}
			found.apiVersion = jsonText(span)
		case "kind":
			span, ok := c.stringSpan()
			if !ok {
				return typeMeta{}
			}
			found.kind = jsonText(span)
		default:
			if !c.skipValue() {
				return typeMeta{}
			}
		}
		if found.apiVersion != "" && found.kind != "" {
			return found
		}
		if !c.take(',') {
			return typeMeta{}
		}
	}
}

// jsonText decodes a string with its quotes, or returns "" if it is too long to be a name.
func jsonText(span []byte) string {
	if len(span) > maxNameBytes {
		return ""
	}
	if bytes.IndexByte(span, '\\') < 0 {
		return string(span[1 : len(span)-1])
	}
	var text string
	if json.Unmarshal(span, &text) != nil {
		return ""
	}
	return text
}

// jsonCursor moves over JSON without decoding it.
type jsonCursor struct{ rest []byte }

func (c *jsonCursor) space() {
	c.rest = bytes.TrimLeft(c.rest, " \t\r\n")
}

// take skips white space and then one byte, if it is the wanted one.
func (c *jsonCursor) take(wanted byte) bool {
	c.space()
	if len(c.rest) == 0 || c.rest[0] != wanted {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

// stringSpan skips a string and returns it with its quotes.
func (c *jsonCursor) stringSpan() ([]byte, bool) {
	c.space()
	if len(c.rest) == 0 || c.rest[0] != '"' {
		return nil, false
	}
	for i := 1; i < len(c.rest); i++ {
		switch c.rest[i] {
		case '\\':
			i++
		case '"':
			span := c.rest[:i+1]
			c.rest = c.rest[i+1:]
			return span, true
		}
	}
	return nil, false
}

// skipValue skips any value.
func (c *jsonCursor) skipValue() bool {
	c.space()
	if len(c.rest) == 0 {
		return false
	}
	switch c.rest[0] {
	case '"':
		_, ok := c.stringSpan()
		return ok
	case '{', '[':
		return c.skipNested()
	}
	end := bytes.IndexAny(c.rest, ",}] \t\r\n")
	if end <= 0 {
		return false
	}
	c.rest = c.rest[end:]
	return true
}

func (c *jsonCursor) skipNested() bool {
	for depth := 0; ; {
		next := bytes.IndexAny(c.rest, `{}[]"`)
		if next < 0 {
			return false
		}
		c.rest = c.rest[next:]
		switch c.rest[0] {
		case '"':
			if _, ok := c.stringSpan(); !ok {
				return false
			}
			continue
		case '{', '[':
			depth++
		default:
			depth--
		}
		c.rest = c.rest[1:]
		if depth == 0 {
			return true
		}
	}
}
