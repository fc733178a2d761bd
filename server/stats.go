package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"unmask/generate"
)

// stats are the server's counters. No label comes from a request.
type stats struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec   // route, code
	requestTime *prometheus.HistogramVec // route
	queueTime   prometheus.Histogram
	firstTime   prometheus.Histogram
	passTime    prometheus.Histogram
	passRows    prometheus.Histogram
	passSizes   prometheus.Histogram
	rows        *prometheus.CounterVec // kind
	tokens      prometheus.Counter
	cancels     *prometheus.CounterVec // why
	hits        prometheus.Counter
	streams     prometheus.Gauge
	repeats     prometheus.Counter
	models      *prometheus.GaugeVec
}

// newStats returns what is counted, in a registry of its own. waits returns what waits now.
func newStats(waits func() (requests int, rows int64, seconds float64)) *stats {
	s := &stats{registry: prometheus.NewRegistry()}
	seconds := prometheus.ExponentialBuckets(0.001, 2, 20) // 1 ms to 524 s
	rows := prometheus.ExponentialBuckets(1, 2, 14)        // to 8192
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "unmask_" + name, Help: help})
		s.registry.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "unmask_" + name, Help: help}, labels)
		s.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "unmask_" + name, Help: help,
			Buckets: buckets})
		s.registry.MustRegister(h)
		return h
	}
	s.requests = counters("requests_total", "Requests answered.", "route", "code")
	s.requestTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "unmask_request_seconds", Help: "From a request's arrival to its answer's end.",
		Buckets: seconds}, []string{"route"})
	s.registry.MustRegister(s.requestTime)
	s.queueTime = histogram("queue_seconds", "From a request's arrival to its first step.", seconds)
	s.firstTime = histogram("first_step_seconds",
		"From a request's arrival to the end of its first step.",
		seconds)
	s.passTime = histogram("pass_seconds", "One pass, or one step of all that took part.", seconds)
	s.passRows = histogram("pass_rows", "Rows of one pass.", rows)
	s.passSizes = histogram("pass_sequences", "Sequences of one pass.", rows[:8])
	s.rows = counters("rows_total",
		"Rows computed for finished sequences: full passes, rows of partial "+
			"passes, rows of the output head.", "kind")
	s.tokens = counter("tokens_opened_total", "Positions opened.")
	s.cancels = counters("cancelled_total", "Requests given up.", "why")
	s.hits = counter("cache_hits_total", "Answers that were there already.")
	s.repeats = counter("repeated_passes_total", "Passes made again for one sequence alone.")
	s.streams = prometheus.NewGauge(prometheus.GaugeOpts{Name: "unmask_streams",
		Help: "Streams that are open."})
	s.models = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "unmask_model_info",
		Help: "1 for each model that is served."}, []string{"model", "precision", "device",
		"fingerprint"})
	s.registry.MustRegister(s.streams, s.models, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.watch(waits)
	for _, why := range []string{"client", "deadline"} {
		s.cancels.WithLabelValues(why)
	}
	return s
}

// watch registers the gauges of what waits.
func (s *stats) watch(waits func() (requests int, rows int64, seconds float64)) {
	gauge := func(name, help string, value func() float64) {
		s.registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "unmask_" + name, Help: help}, value))
	}
	gauge("queue_requests", "Requests that wait for their first step.", func() float64 {
		n, _, _ := waits()
		return float64(n)
	})
	gauge("queue_rows", "Rows of all steps that are still to be made, at most.", func() float64 {
		_, n, _ := waits()
		return float64(n)
	})
}

func (s *stats) served(m *servedModel) {
	s.models.WithLabelValues(m.name, m.precision, m.device, m.fingerprint()).Set(1)
}

func (s *stats) request(route string, code string, took time.Duration) {
	s.requests.WithLabelValues(route, code).Inc()
	s.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

func (s *stats) Queued(took time.Duration)    { s.queueTime.Observe(took.Seconds()) }
func (s *stats) FirstStep(took time.Duration) { s.firstTime.Observe(took.Seconds()) }
func (s *stats) Opened(n int)                 { s.tokens.Add(float64(n)) }
func (s *stats) Cancelled(why string)         { s.cancels.WithLabelValues(why).Inc() }
func (s *stats) Repeated()                    { s.repeats.Inc() }
func (s *stats) Hit()                         { s.hits.Inc() }

func (s *stats) Pass(seconds float64, rows, sequences int) {
	s.passTime.Observe(seconds)
	s.passRows.Observe(float64(rows))
	s.passSizes.Observe(float64(sequences))
}

func (s *stats) Evaluated(e generate.Evaluated) {
	s.rows.WithLabelValues("full_passes").Add(float64(e.Full))
	s.rows.WithLabelValues("partial").Add(float64(e.Partial))
	s.rows.WithLabelValues("head").Add(float64(e.Head))
}
