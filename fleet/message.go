package fleet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// protocol is the number of the messages' form. Hub and workers must have the same.
const protocol = 3

// Subjects are under the fleet's id, so that several can share an outside NATS.
func subject(id, name string) string { return "unmask." + id + "." + name }

// keyBytes is the size of a connection's key. The worker draws it, and only the hub learns it.
const keyBytes = 16

// inbox is where a connection gets its answers, and nobody else.
func inbox(id, key string) string { return subject(id, "to."+key) }

// sender returns the key of the connection that sent a message; ok is false where it asks for an
// answer elsewhere than at its own inbox, such as on a subject that all workers hear.
func sender(id, at, reply string) (key string, ok bool) {
	key = at[strings.LastIndexByte(at, '.')+1:]
	return key, isHex(key, keyBytes) && (reply == "" || strings.HasPrefix(reply, inbox(id, key)+"."))
}

// joinRequest asks to join. Without Run it asks what the run is, with Run it shows the first
// output.
type joinRequest struct {
	Protocol int    `json:"protocol"`
	Worker   string `json:"worker"`
	Build    string `json:"build"`
	Go       string `json:"go"`
	Platform string `json:"platform"`

	Run      string            `json:"run,omitempty"` // its key
	Settings map[string]string `json:"settings,omitempty"`
	Device   string            `json:"device,omitempty"`
	Digest   string            `json:"digest,omitempty"` // of the first output
	Seconds  float64           `json:"seconds,omitempty"`
}

// joinReply answers a joinRequest.
type joinReply struct {
	refusal
	Run   string `json:"run"`
	Spec  string `json:"spec"` // the SHA-256 of the plan, which blob has
	Size  int64  `json:"size"` // of the plan in bytes
	N     int    `json:"n"`
	Lease int64  `json:"lease"` // in nanoseconds
	Jobs  int    `json:"jobs"`  // to take at once
}

// plan is a run as workers see it.
type plan struct {
	Spec  []byte `json:"spec"`
	Trees []Tree `json:"trees"`
}

// refusal is an answer that is no. Busy and Rejoin ask for the same, or a joinRequest, later.
type refusal struct {
	Error  string `json:"error,omitempty"` // the worker is to end
	Rejoin bool   `json:"rejoin,omitempty"`
	Busy   bool   `json:"busy,omitempty"`
}

// job asks for the outputs First to First+Count-1.
type job struct {
	Run   string `json:"run"`
	First int    `json:"first"`
	Count int    `json:"count"`
}

// done is the header of a result; the outputs' bytes follow it. Without outputs it is a heartbeat,
// a wish for jobs or, with Leave, the last word.
type done struct {
	Job     job     `json:"job"`
	Seconds float64 `json:"seconds"` // that the job took
	Outputs []sent  `json:"outputs"`
	Want    int     `json:"want,omitempty"` // jobs
	Held    []int   `json:"held,omitempty"` // the first outputs of jobs at hand, of who wants more
	Leave   bool    `json:"leave,omitempty"`
}

type sent struct {
	Index  int    `json:"index"`
	Seed   uint64 `json:"seed"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// ack answers a result.
type ack struct {
	refusal
	Again bool  `json:"again,omitempty"` // it arrived damaged
	Jobs  int   `json:"jobs"`            // to take at once
	Give  []job `json:"give,omitempty"`  // what was wished for
}

// blobRequest is a request for a piece of a file by its SHA-256.
type blobRequest struct {
	SHA256 string `json:"sha256"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
}

// piece is the header of a part of a file, whose bytes follow it.
type piece struct {
	refusal
	Size int64 `json:"size"` // of the whole file
}

// pack puts a header before bytes: its length as 4 bytes, big end first, then JSON.
func pack(header any, data ...[]byte) []byte {
	h, err := json.Marshal(header)
	if err != nil {
		panic(err) // headers are texts and numbers
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(len(h)))
	out = append(out, h...)
	for _, d := range data {
		out = append(out, d...)
	}
	return out
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

// outputs splits the bytes of a result into outputs, or describes what is wrong with it.
func (d *done) outputs(data []byte) (list []Output, damaged bool, err error) {
	total := 0
	for _, s := range d.Outputs {
		if s.Index < d.Job.First || s.Index >= d.Job.First+d.Job.Count {
			return nil, false, fmt.Errorf("result has output %d, want %d to %d", s.Index, d.Job.First,
				d.Job.First+d.Job.Count-1)
		}
		if s.Size < 0 || s.Size > MaxResult {
			return nil, false, fmt.Errorf("output %d is %d bytes, want at most %d", s.Index, s.Size,
				MaxResult)
		}
		total += s.Size
	}
	if total > MaxResult {
		return nil, false, fmt.Errorf("result is %d bytes, want at most %d", total, MaxResult)
	}
	if total != len(data) {
		return nil, true, nil
	}
	for _, s := range d.Outputs {
		o := Output{s.Index, s.Seed, data[:s.Size]}
		if data = data[s.Size:]; digest(o.Data) != s.SHA256 {
			return nil, true, nil
		}
		list = append(list, o)
	}
	return list, false, nil
}
