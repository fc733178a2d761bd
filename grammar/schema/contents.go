package schema

import (
	"encoding/json"
	"slices"
	"strconv"
)

// content is what a keyword holds, in the words of errors.
type content string

const (
	textContent           content = "text"
	flagContent           content = "true or false"
	numberContent         content = "number"
	countContent          content = "count"
	boundContent          content = "number, true or false" // true and false in draft 4
	listContent           content = "list"
	textListContent       content = "list of texts"
	typeContent           content = "text or list of texts"
	schemaContent         content = "schema"
	schemaListContent     content = "list of schemas"
	itemsContent          content = "schema or list of schemas" // a list before 2020-12
	schemasByKeyContent   content = "object of schemas"
	textListsByKeyContent content = "object of lists of texts"
	dependenciesContent   content = "object of schemas and lists of texts"
)

// keywords has what the keywords hold that say what is valid. Others, such as title, are not looked
// at: they may hold anything, also what looks like a schema.
var keywords = map[string]content{
	"$schema":        textContent,
	"$id":            textContent,
	"$anchor":        textContent,
	"$dynamicAnchor": textContent,
	"$ref":           textContent,
	"$defs":          schemasByKeyContent,
	"definitions":    schemasByKeyContent,

	"type":     typeContent,
	"enum":     listContent,
	"nullable": flagContent,

	"minimum":          numberContent,
	"maximum":          numberContent,
	"exclusiveMinimum": boundContent,
	"exclusiveMaximum": boundContent,
	"multipleOf":       numberContent,

	"minLength": countContent,
	"maxLength": countContent,
	"pattern":   textContent,
	"format":    textContent,

	"items":           itemsContent,
	"prefixItems":     schemaListContent,
	"additionalItems": schemaContent,
	"contains":        schemaContent,
	"minItems":        countContent,
	"maxItems":        countContent,
	"uniqueItems":     flagContent,

	"properties":           schemasByKeyContent,
	"patternProperties":    schemasByKeyContent,
	"additionalProperties": schemaContent,
	"propertyNames":        schemaContent,
	"required":             textListContent,
	"minProperties":        countContent,
	"maxProperties":        countContent,
	"dependencies":         dependenciesContent,
	"dependentRequired":    textListsByKeyContent,
	"dependentSchemas":     schemasByKeyContent,

	"allOf": schemaListContent,
	"anyOf": schemaListContent,
	"oneOf": schemaListContent,
	"not":   schemaContent,
	"if":    schemaContent,
	"then":  schemaContent,
	"else":  schemaContent,
}

// accepts reports whether a value is what a keyword holds. Schemas inside of lists and objects are
// not looked at: each is checked by itself.
func (c content) accepts(v any) bool {
	list, isList := v.([]any)
	o, isObject := v.(*object)
	_, isText := v.(string)
	_, isFlag := v.(bool)
	x, isNumber := v.(json.Number)
	isTextList := isList && !slices.ContainsFunc(list, func(v any) bool {
		return !textContent.accepts(v)
	})
	switch c {
	case textContent:
		return isText
	case flagContent:
		return isFlag
	case numberContent:
		return isNumber
	case countContent:
		r, ok := parseNumber(x)
		return isNumber && ok && r.IsInt() && r.Sign() >= 0
	case boundContent:
		return isNumber || isFlag
	case listContent, schemaListContent:
		return isList
	case textListContent:
		return isTextList
	case typeContent:
		return isText || isTextList
	case schemaContent:
		return isObject || isFlag
	case itemsContent:
		return isObject || isFlag || isList
	case textListsByKeyContent:
		return isObject && !slices.ContainsFunc(o.keys, func(k string) bool {
			return !textListContent.accepts(o.values[k])
		})
	}
	return isObject
}

// eachSchema calls f for the schemas that a keyword at a pointer holds, with their own pointers.
func (c content) eachSchema(pointer string, v any, f func(pointer string, v any) error) error {
	switch v := v.(type) {
	case []any:
		if c != schemaListContent && c != itemsContent {
			return nil
		}
		for i, item := range v {
			if err := f(appendPointer(pointer, strconv.Itoa(i)), item); err != nil {
				return err
			}
		}
	case *object:
		switch c {
		case schemaContent, itemsContent:
			return f(pointer, v)
		case schemasByKeyContent, dependenciesContent:
			for _, k := range v.keys {
				if c == dependenciesContent && textListContent.accepts(v.values[k]) {
					continue
				}
				if err := f(appendPointer(pointer, k), v.values[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
