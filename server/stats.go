package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"unmask/generate"
)

// stats are the server's counters. No label comes from a request.
type stats struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec   // route, code
	requestTime *prometheus.HistogramVec // route
	queueTime   prometheus.Observer
	firstTime   prometheus.Observer
	passTime    prometheus.Observer
	passRows    prometheus.Observer
	passSizes   prometheus.Observer
	rows        *prometheus.CounterVec // kind
	tokens      prometheus.Counter
	cancels     *prometheus.CounterVec // why
	hits        prometheus.Counter
	streams     prometheus.Gauge
	repeats     prometheus.Counter
	models      *prometheus.GaugeVec
}

// newStats returns the counters, in a registry of their own. backlog returns what waits now.
func newStats(backlog func() (requests int, rows int64)) *stats {
	s := &stats{registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	factory := promauto.With(s.registry)
	seconds := prometheus.ExponentialBuckets(0.001, 2, 20) // 1 ms to 524 s
	counts := prometheus.ExponentialBuckets(1, 2, 14)      // to 8192
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: "unmask_" + name, Help: help}, labels)
	}
	histograms := func(name, help string, buckets []float64,
		labels ...string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{Name: "unmask_" + name, Help: help,
			Buckets: buckets}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return factory.NewGaugeVec(prometheus.GaugeOpts{Name: "unmask_" + name, Help: help}, labels)
	}
	s.requests = counters("requests_total", "Requests answered.", "route", "code")
	s.requestTime = histograms("request_seconds", "From a request's arrival to its answer's end.",
		seconds, "route")
	s.queueTime = histograms("queue_seconds", "From a request's arrival to its first step.",
		seconds).WithLabelValues()
	s.firstTime = histograms("first_step_seconds",
		"From a request's arrival to the end of its first step.", seconds).WithLabelValues()
	s.passTime = histograms("pass_seconds", "One pass, or one step of all that took part.",
		seconds).WithLabelValues()
	s.passRows = histograms("pass_rows", "Rows of one pass.", counts).WithLabelValues()
	s.passSizes = histograms("pass_sequences", "Sequences of one pass.", counts[:8]).WithLabelValues()
	s.rows = counters("rows_total", "Rows computed for finished sequences: full passes, rows of "+
		"partial passes, rows of the output head.", "kind")
	s.tokens = counters("tokens_opened_total", "Positions opened.").WithLabelValues()
	s.cancels = counters("cancelled_total", "Requests given up.", "why")
	s.hits = counters("cache_hits_total", "Answers that were there already.").WithLabelValues()
	s.repeats = counters("repeated_passes_total",
		"Passes made again for one sequence alone.").WithLabelValues()
	s.streams = gauges("streams", "Streams that are open.").WithLabelValues()
	s.models = gauges("model_info", "1 for each model that is served.", "model", "precision",
		"device", "fingerprint")
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "unmask_queue_requests",
		Help: "Requests that wait for their first step."}, func() float64 {
		requests, _ := backlog()
		return float64(requests)
	})
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "unmask_queue_rows",
		Help: "Rows of all steps that are still to be made, at most."}, func() float64 {
		_, rows := backlog()
		return float64(rows)
	})
	for _, why := range []string{"client", "deadline"} {
		s.cancels.WithLabelValues(why)
	}
	return s
}

// countRequest counts a request and the time that it took.
func (s *stats) countRequest(route, code string, took time.Duration) {
	s.requests.WithLabelValues(route, code).Inc()
	s.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

func (s *stats) CallBegan(took time.Duration)     { s.queueTime.Observe(took.Seconds()) }
func (s *stats) FirstStepDone(took time.Duration) { s.firstTime.Observe(took.Seconds()) }
func (s *stats) PositionsOpened(n int)            { s.tokens.Add(float64(n)) }
func (s *stats) CallCancelled(why string)         { s.cancels.WithLabelValues(why).Inc() }
func (s *stats) PassRepeated()                    { s.repeats.Inc() }
func (s *stats) AnswerReused()                    { s.hits.Inc() }

// PassDone implements engine.Stats.
func (s *stats) PassDone(seconds float64, rows, sequences int) {
	s.passTime.Observe(seconds)
	s.passRows.Observe(float64(rows))
	s.passSizes.Observe(float64(sequences))
}

// SequenceDone implements engine.Stats.
func (s *stats) SequenceDone(work generate.Work) {
	s.rows.WithLabelValues("full_passes").Add(float64(work.Full))
	s.rows.WithLabelValues("partial").Add(float64(work.Partial))
	s.rows.WithLabelValues("head").Add(float64(work.Head))
}
