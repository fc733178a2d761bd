package fleet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// protocol is the number of the messages' form and of what a run's settings mean. Hub and workers
// must have the same. It was 3 in version 0.1.0, whose workers draw constrained answers otherwise:
// their settings are equal, and output 0 may be equal too where later ones differ.
const protocol = 4

// Subjects are under the fleet's id, so that several can share an outside NATS.
func subject(id, name string) string { return "unmask." + id + "." + name }

// keyBytes is the size of a connection's key. The worker draws it, and only the hub learns it.
const keyBytes = 16

// inbox returns the prefix of the subjects on which a connection, and nobody else, gets answers.
func inbox(id, key string) string { return subject(id, "to."+key) }

// senderKey returns the key of the connection that sent a message on a subject. ok is false if it
// wants the answer anywhere but in its own inbox, such as on a subject that all workers hear:
// otherwise a worker could make the hub send messages to others.
func senderKey(id, subject, reply string) (key string, ok bool) {
	key = subject[strings.LastIndexByte(subject, '.')+1:]
	repliesToSender := reply == "" || strings.HasPrefix(reply, inbox(id, key)+".")
	return key, isHex(key, keyBytes) && repliesToSender
}

// joinRequest asks to join. Without Run it asks for the run's description; with Run it carries the
// digest of the worker's own first output: a worker that computes other bytes must not join.
type joinRequest struct {
	Protocol int    `json:"protocol"`
	Worker   string `json:"worker"`
	Build    string `json:"build"`
	Go       string `json:"go"`
	Platform string `json:"platform"`

	// Run is the run's key.
	Run string `json:"run,omitempty"`

	Settings map[string]string `json:"settings,omitempty"`
	Device   string            `json:"device,omitempty"`

	// Digest is that of the first output, which took Seconds to make.
	Digest  string  `json:"digest,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// joinReply answers a joinRequest.
type joinReply struct {
	refusal
	Run string `json:"run"`

	// Spec is the SHA-256 of the plan, which a blobRequest gets, and Size its bytes.
	Spec string `json:"spec"`
	Size int64  `json:"size"`

	N int `json:"n"`

	// Lease is in nanoseconds.
	Lease int64 `json:"lease"`

	// Jobs is how many jobs to take at once.
	Jobs int `json:"jobs"`
}

// plan is a run as workers see it.
type plan struct {
	Spec  []byte `json:"spec"`
	Trees []Tree `json:"trees"`
}

// refusal is an answer that says no.
type refusal struct {
	// Error ends the worker.
	Error string `json:"error,omitempty"`

	// Rejoin asks for a joinRequest, and then for the same message.
	Rejoin bool `json:"rejoin,omitempty"`

	// Busy asks for the same message later.
	Busy bool `json:"busy,omitempty"`
}

// job asks for the outputs First to First+Count-1.
type job struct {
	Run   string `json:"run"`
	First int    `json:"first"`
	Count int    `json:"count"`
}

// result is the header of a result; the outputs' bytes follow it. Without outputs it is a
// heartbeat, a wish for jobs or, with Leave, the last word.
type result struct {
	Job job `json:"job"`

	// Seconds is the time that the job took.
	Seconds float64 `json:"seconds"`

	Outputs []outputHeader `json:"outputs"`

	// Want is the number of jobs that the worker wants.
	Want int `json:"want,omitempty"`

	// Held has the first outputs of the jobs that a worker holds which wants more.
	Held []int `json:"held,omitempty"`

	Leave bool `json:"leave,omitempty"`
}

// outputHeader describes an output whose bytes follow the header.
type outputHeader struct {
	Index  int    `json:"index"`
	Seed   uint64 `json:"seed"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// ack answers a result.
type ack struct {
	refusal

	// Again reports whether the result arrived damaged.
	Again bool `json:"again,omitempty"`

	// Jobs is how many jobs to take at once.
	Jobs int `json:"jobs"`

	// Give has the jobs that the worker wanted.
	Give []job `json:"give,omitempty"`
}

// overMessage tells workers that a run is finished.
type overMessage struct {
	Run string `json:"run,omitempty"`

	// Last says that no run follows.
	Last bool `json:"last,omitempty"`
}

// blobRequest is a request for a piece of a file by its SHA-256.
type blobRequest struct {
	SHA256 string `json:"sha256"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
}

// pieceHeader is the header of a piece of a file, whose bytes follow it.
type pieceHeader struct {
	refusal

	// Size is that of the whole file.
	Size int64 `json:"size"`
}

// pack puts a header before bytes: its length as 4 bytes, big end first, then JSON.
func pack(header any, data ...[]byte) []byte {
	encoded, err := json.Marshal(header)
	if err != nil {
		panic(err) // headers are texts and numbers
	}
	message := binary.BigEndian.AppendUint32(nil, uint32(len(encoded)))
	message = append(message, encoded...)
	for _, d := range data {
		message = append(message, d...)
	}
	return message
}

// maxHeader bounds a header, in bytes.
const maxHeader = 4 << 20

// unpack is pack's inverse.
func unpack(message []byte, header any) (data []byte, err error) {
	if len(message) < 4 {
		return nil, errors.New("message has no header")
	}
	n := int64(binary.BigEndian.Uint32(message))
	if n > maxHeader || n > int64(len(message)-4) {
		return nil, fmt.Errorf("message has a header of %d bytes, want at most %d", n,
			min(maxHeader, len(message)-4))
	}
	if err := json.Unmarshal(message[4:4+n], header); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return message[4+n:], nil
}

// splitOutputs splits the bytes of a result into outputs. damaged reports whether the bytes are not
// those that were sent; the error says what is wrong with the header, which is its sender's fault.
func (r *result) splitOutputs(data []byte) (outputs []Output, damaged bool, err error) {
	total := 0
	for _, h := range r.Outputs {
		if h.Index < r.Job.First || h.Index >= r.Job.First+r.Job.Count {
			return nil, false, fmt.Errorf("result has output %d, want %d to %d", h.Index, r.Job.First,
				r.Job.First+r.Job.Count-1)
		}
		if h.Size < 0 || h.Size > MaxResult {
			return nil, false, fmt.Errorf("output %d is %d bytes, want at most %d", h.Index, h.Size,
				MaxResult)
		}
		total += h.Size
	}
	if total > MaxResult {
		return nil, false, fmt.Errorf("result is %d bytes, want at most %d", total, MaxResult)
	}
	if total != len(data) { // the sender counted what it sent, so some was lost on the way
		return nil, true, nil
	}
	for _, h := range r.Outputs {
		o := Output{h.Index, h.Seed, data[:h.Size]}
		data = data[h.Size:]
		if digest(o.Data) != h.SHA256 {
			return nil, true, nil
		}
		outputs = append(outputs, o)
	}
	return outputs, false, nil
}
