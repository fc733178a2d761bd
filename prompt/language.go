package prompt

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/internal/lru"
	"unmask/internal/turns"
	"unmask/model"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// Languages compiles grammars for one model and keeps those that were used last. Its methods may be
// called concurrently.
type Languages struct {
	text     *Text
	spec     model.Spec
	callForm func() (form chat.CallForm, own bool)

	// vocabulary is built once, at the first grammar: most runs have none.
	vocabulary func() *grammar.Vocabulary

	// kept are languages by a hash of what they depend on, without positions.
	kept *lru.Cache[[sha256.Size]byte, *constrain.Language]
}

// maxKeptBytes is the memory that the automata take which one model keeps.
const maxKeptBytes = 128 << 20

// NewLanguages returns the compiler of a model that makes text. callForm says how the model's chat
// template spells calls, and whether it has a form of its own.
func NewLanguages(text *Text, spec model.Spec,
	callForm func() (form chat.CallForm, isOwn bool)) *Languages {
	return &Languages{
		text:     text,
		spec:     spec,
		callForm: callForm,
		vocabulary: sync.OnceValue(func() *grammar.Vocabulary {
			return NewVocabulary(text, spec)
		}),
		kept: lru.New[[sha256.Size]byte, *constrain.Language](maxKeptBytes),
	}
}

// NewVocabulary returns the trie of a tokenizer's tokens for a model of some outcomes. Special
// tokens are not in it: what they spell is not text.
func NewVocabulary(t tokenizers.Tokenizer, spec model.Spec) *grammar.Vocabulary {
	return grammar.NewVocabulary(spec.Outcomes, func(id int32) (string, bool) {
		return tokenText(t, spec, id)
	})
}

// tokenText returns the text of a token, none of a special one.
func tokenText(t tokenizers.Tokenizer, spec model.Spec, id int32) (string, bool) {
	if id == spec.Mask || tokenizers.IsSpecial(t, id) || slices.Contains(spec.EndTokens, id) {
		return "", false
	}
	return t.Token(id)
}

// knownText returns the text of known tokens as automata read it, without special ones.
func (l *Languages) knownText(tokens []int32) string {
	var b strings.Builder
	for _, id := range tokens {
		if text, ok := tokenText(l.text, l.spec, id); ok {
			b.WriteString(text)
		}
	}
	return b.String()
}

// Compile returns the language of a sequence whose tokens are known but for masks, nil if nothing
// is masked, and the tokens that end the sequence: endTokens, or those that end the model's texts.
// cut are tokens before which what is shown of the text ends: one that pads ends it then. ctx ends
// a compilation that takes long; its owner (WithOwner) decides whose turn it is. A grammar that no
// text of this length can follow, or whose automaton is too large, is a *param.Error.
func (l *Languages) Compile(ctx context.Context, g *Grammar, tokens, endTokens,
	cut []int32) (*constrain.Language, []int32, error) {
	language := &constrain.Language{FirstPosition: slices.Index(tokens, l.spec.Mask)}
	if language.FirstPosition < 0 {
		return nil, endTokens, nil
	}
	language.EndPosition = len(tokens)
	for tokens[language.EndPosition-1] != l.spec.Mask {
		language.EndPosition--
	}

	textEnd := len(tokens) - l.spec.TailCount(tokens)
	isLast := language.EndPosition == textEnd
	var place *placement
	if g.avoidsAlone() {
		place = l.placeFree(isLast, endTokens, cut)
	} else {
		// What is shown may be cut before the tokens that the model has behind every text.
		mayCut := isLast || language.EndPosition == textEnd-len(l.spec.AfterText)
		place = l.placeEnding(isLast, mayCut, endTokens, cut)
		endTokens = place.endTokens
	}
	if len(g.Avoid) > 0 {
		place.before = l.knownText(tokens[:language.FirstPosition])
		place.after = l.knownText(tokens[language.EndPosition:])
	}
	compiled, err := l.compileOnce(ctx, g, place)
	if err == nil {
		language.Tokens = compiled.Tokens
		language.Choices = compiled.Choices
		language.Text = compiled.Text
		err = g.AsRefusal(l.check(ctx, language, tokens))
	}
	return language, endTokens, err
}

// placeEnding returns where a text stands that ends on the positions it has. isLast says that it
// ends with the sequence, and mayCut that no known text follows.
func (l *Languages) placeEnding(isLast, mayCut bool, endTokens, cut []int32) *placement {
	if !isLast {
		endTokens = nil // known text follows, so nothing may end before it
	} else if len(endTokens) == 0 {
		endTokens = l.spec.EndTokens
		if id, ok := l.text.endOfText(); ok && len(endTokens) == 0 {
			endTokens = []int32{id}
		}
	}
	place := &placement{endTokens: endTokens}
	for _, pad := range l.text.pads {
		switch {
		case !slices.Contains(cut, pad):
			place.padTokens = append(place.padTokens, pad)
		case mayCut && !slices.Contains(endTokens, pad):
			place.endTokens = append(slices.Clip(place.endTokens), pad)
		}
	}
	place.spacesFollow = isLast && len(place.endTokens) == 0 && len(place.padTokens) == 0
	return place
}

// placeFree returns where a text stands that may be any but for what it avoids: what a run without
// a grammar draws. What is shown of it ends before the same tokens, and all others that are no text
// are the empty word.
func (l *Languages) placeFree(isLast bool, endTokens, cut []int32) *placement {
	place := &placement{isFree: true}
	if isLast {
		place.endTokens = endTokens
		if len(endTokens) == 0 {
			place.endTokens = l.spec.EndTokens
		}
		place.endTokens = slices.Concat(place.endTokens, cut)
	}
	for id := range int32(l.spec.Outcomes) {
		text, isText := tokenText(l.text, l.spec, id)
		isEmpty := !isText || text == ""
		isDrawn := id != l.spec.Mask && !slices.Contains(l.spec.NeverDrawn, id)
		if isEmpty && isDrawn && !slices.Contains(place.endTokens, id) {
			place.padTokens = append(place.padTokens, id)
		}
	}
	return place
}

// check returns an error if a language has no text with some tokens. Checks that look at many edges
// take turns, as compiling does.
func (l *Languages) check(ctx context.Context, language *constrain.Language, tokens []int32) error {
	const manyEdges = 1 << 24
	if language.Work() > manyEdges {
		giveBack, err := compiling.Take(ctx, ownerOf(ctx), 1)
		if err != nil {
			return err
		}
		defer giveBack()
	}
	return language.Check(tokens, l.spec.Mask)
}

// ownerKey is the key of a context's owner.
type ownerKey struct{}

// WithOwner returns a context of work for an owner, such as a client of a server. Owners take turns
// where grammars are compiled, and the one that keeps the most of them is the first to lose some.
func WithOwner(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, ownerKey{}, name)
}

// ownerOf returns the owner of a context's work, "" if it has none.
func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// compiling lets as many goroutines compile at once as leave one processor to passes, if there are
// several.
var compiling = turns.New(int64(max(1, runtime.GOMAXPROCS(0)-1)))

// compileOnce returns the language of a grammar, which it compiles if it is not kept.
func (l *Languages) compileOnce(ctx context.Context, g *Grammar, place *placement) (
	*constrain.Language, error) {
	calls, _ := json.Marshal(g.Calls) // what cannot be written is refused by the compiler
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %v %v %v %v %q %q %q", g.Schema, g.Regex,
		g.Choice, calls, g.Recursion, place.endTokens, place.padTokens, place.spacesFollow, place.isFree,
		g.Avoid, place.before, place.after))
	if kept, ok := l.kept.Get(key); ok {
		return kept, nil
	}

	owner := ownerOf(ctx)
	giveBack, err := compiling.Take(ctx, owner, 1)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	if kept, ok := l.kept.Get(key); ok { // another goroutine compiled it while this one waited
		return kept, nil
	}
	language, err := l.compile(ctx, g, place)
	if err != nil {
		return nil, err
	}
	l.kept.Put(key, language, owner, int64(language.Bytes()))
	return language, nil
}

// compile makes the automata of a grammar.
func (l *Languages) compile(ctx context.Context, g *Grammar, place *placement) (
	*constrain.Language, error) {
	budget := grammar.NewBudget(ctx, schema.DefaultLimit)
	var form templateForm
	form.CallForm, form.own = l.callForm()
	automaton, choiceEnds, err := g.compile(form, place, budget)
	if err != nil {
		return nil, err
	}

	language := &constrain.Language{}
	if place.spacesFollow {
		language.Text = automaton
		if g.Choice != nil {
			language.Text, err = grammar.Choices(g.Choice, budget)
		} else {
			automaton = automaton.WithTrailingSpace()
		}
		if err != nil {
			return nil, asRefusal("choice", err)
		}
	}
	language.Tokens, err = automaton.Tokens(l.vocabulary(), grammar.TokenOptions{
		EndTokens:   place.endTokens,
		FillTokens:  place.endTokens,
		PadTokens:   place.padTokens,
		MayTruncate: place.isFree || g.Calls != nil && g.Calls.Text,
		AnyAfterEnd: place.isFree,
		Budget:      budget,
	})
	if err != nil {
		return nil, g.AsRefusal(err)
	}
	if choiceEnds != nil {
		language.Choices = constrain.NewChoices(g.Choice, language.Tokens, choiceEnds)
	}
	return language, nil
}
