package schema

import (
	"encoding/json"
	"slices"
	"strconv"
)

// content is what a keyword holds.
type content string

const (
	aText        content = "text"
	aFlag        content = "true or false"
	aNumber      content = "number"
	aCount       content = "count"
	aBound       content = "number, true or false" // true and false in draft 4
	values       content = "list"
	names        content = "list of texts"
	types        content = "text or list of texts"
	aSchema      content = "schema"
	schemas      content = "list of schemas"
	aSchemaOrAll content = "schema or list of schemas" // a list before 2020-12
	named        content = "object of schemas"
	namesByKey   content = "object of lists of texts"
	dependent    content = "object of schemas and lists of texts"
)

// vocabulary has what the keywords hold that say what is valid.
var vocabulary = map[string]content{
	"$schema": aText, "$id": aText, "$anchor": aText, "$dynamicAnchor": aText, "$ref": aText,
	"$defs": named, "definitions": named,
	"type": types, "enum": values, "nullable": aFlag,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aBound, "exclusiveMaximum": aBound,
	"multipleOf": aNumber,
	"minLength":  aCount, "maxLength": aCount, "pattern": aText, "format": aText,
	"items": aSchemaOrAll, "prefixItems": schemas, "additionalItems": aSchema, "contains": aSchema,
	"minItems": aCount, "maxItems": aCount, "uniqueItems": aFlag,
	"properties": named, "patternProperties": named, "additionalProperties": aSchema,
	"propertyNames": aSchema, "required": names, "minProperties": aCount, "maxProperties": aCount,
	"dependencies": dependent, "dependentRequired": namesByKey, "dependentSchemas": named,
	"allOf": schemas, "anyOf": schemas, "oneOf": schemas, "not": aSchema,
	"if": aSchema, "then": aSchema, "else": aSchema,
}

// fits reports whether a value is of a kind, but for the schemas in it.
func (c content) fits(v any) bool {
	list, isList := v.([]any)
	o, isObject := v.(*object)
	_, isText := v.(string)
	_, isFlag := v.(bool)
	x, isNumber := v.(json.Number)
	texts := isList && !slices.ContainsFunc(list, func(v any) bool { return !aText.fits(v) })
	switch c {
	case aText:
		return isText
	case aFlag:
		return isFlag
	case aNumber:
		return isNumber
	case aCount:
		r, ok := rational(x)
		return isNumber && ok && r.IsInt() && r.Sign() >= 0
	case aBound:
		return isNumber || isFlag
	case values, schemas:
		return isList
	case names:
		return texts
	case types:
		return isText || texts
	case aSchema:
		return isObject || isFlag
	case aSchemaOrAll:
		return isObject || isFlag || isList
	case namesByKey:
		return isObject && !slices.ContainsFunc(o.keys, func(k string) bool {
			return !names.fits(o.values[k])
		})
	}
	return isObject
}

// parts calls f for the schemas that a keyword of a schema holds, with their places.
func (c content) parts(at string, v any, f func(at string, v any) error) error {
	switch v := v.(type) {
	case []any:
		if c == schemas || c == aSchemaOrAll {
			for i, item := range v {
				if err := f(step(at, strconv.Itoa(i)), item); err != nil {
					return err
				}
			}
		}
	case *object:
		switch c {
		case aSchema, aSchemaOrAll:
			return f(at, v)
		case named, dependent:
			for _, k := range v.keys {
				if c == dependent && names.fits(v.values[k]) {
					continue
				}
				if err := f(step(at, k), v.values[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
