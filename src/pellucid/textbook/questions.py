"""Questions that everybody who trains a transformer is asked one day, and their answers, proved.

No result is written down here: an expression is computed when it is asked for, by `pellucid.maths`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.textbook.examples import Computed, compute


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer, what to look at, and a statement that is true if the answer is."""

    text: str
    answer: str
    expressions: tuple[str, ...]
    statement: str

    def proof(self) -> tuple[Computed, ...]:
        """Everything that there is to look at, and the statement, computed now."""
        return tuple(map(compute, (*self.expressions, self.statement)))


#: Adam's first step.
_FIRST = "step=1, learning_rate=0.01, beta1=0.9, beta2=0.999, eps=1e-8"

QUESTIONS: tuple[Question, ...] = (
    Question(
        "Why is the gradient of softmax and cross-entropy by the logits exactly p - y?",
        "The loss is log Z - x_target. The derivative of log Z by x_i is p_i, that of x_target is "
        "1 for the target and 0 elsewhere. Softmax's Jacobian diag(p) - p p^T, applied to -y / p, "
        "comes to the same: the p that divides and the p that multiplies cancel.",
        (
            "softmax(array([2.0, 1.0, 3.0, 0.5, -1.0]))",
            "cross_entropy_grad(array([2.0, 1.0, 3.0, 0.5, -1.0]), array(2))",
        ),
        "allclose(softmax_grad(array([2.0, 1.0, 3.0]), array([0.0, 0.0, -1 / "
        "softmax(array([2.0, 1.0, 3.0]))[2]])), softmax(array([2.0, 1.0, 3.0])) - "
        "array([0, 0, 1]))",
    ),
    Question(
        "Why does subtracting the maximum change nothing in a softmax, and why is it done?",
        "exp(x_i - m) = exp(x_i) exp(-m), above and below the line, so exp(-m) cancels. It is done "
        "because exp overflows: at 710 in float64, 89 in float32, 12 in float16.",
        (
            "softmax(array([1.0, 2.0, 3.0]))",
            "softmax(array([1001.0, 1002.0, 1003.0]))",
        ),
        "allclose(softmax(array([1.0, 2.0, 3.0])), softmax(array([1001.0, 1002.0, 1003.0])))",
    ),
    Question(
        "Why softmax, and not the scores divided by their sum?",
        "Scores may be negative, and shares may not; a constant added to every score would change "
        "the shares; and the sum hardly tells a leader from the rest.",
        (
            "sum_normalise(array([10.0, 5.0, 1.0]))",
            "softmax(array([10.0, 5.0, 1.0]))",
            "sum_normalise(array([2.0, -1.0, -0.5]))",
        ),
        "min(sum_normalise(array([2.0, -1.0, -0.5]))) < 0 < min(softmax(array([2.0, -1.0, -0.5])))",
    ),
    Question(
        "Why is KL asymmetric?",
        "KL(p || q) is a mean over draws from p, KL(q || p) over draws from q. What q does where p "
        "never goes costs nothing in the first, and infinitely much in the second.",
        (
            "kl_divergence(array([0.5, 0.5, 0.0]), array([0.4, 0.4, 0.2]))",
            "kl_divergence(array([0.4, 0.4, 0.2]), array([0.5, 0.5, 0.0]))",
        ),
        "kl_divergence(array([0.5, 0.5, 0.0]), array([0.4, 0.4, 0.2])) < inf == "
        "kl_divergence(array([0.4, 0.4, 0.2]), array([0.5, 0.5, 0.0]))",
    ),
    Question(
        "Can KL be negative?",
        "No (Gibbs): log u <= u - 1, so -KL = sum p log(q / p) <= sum q - sum p = 0, with equality "
        "only where p = q. An estimate from draws can be: k1 is, k3 never.",
        (
            "kl_divergence(softmax(normal(5, 4)), softmax(normal(5, 4)[::-1]))",
            "kl_k1(array([-0.5, 0.0, 0.5]))",
            "kl_k3(array([-0.5, 0.0, 0.5]))",
        ),
        "min(kl_divergence(softmax(normal(500, 4)), softmax(normal(500, 4)[::-1]))) >= 0",
    ),
    Question(
        "What ties cross-entropy, entropy and KL together?",
        "CE = H + KL: what it costs is what it must cost, and what the wrong code adds. H does not "
        "depend on the model, so minimising one is minimising the other.",
        (
            "cross_entropy_between(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5]))",
            "entropy(array([0.7, 0.2, 0.1]))",
            "kl_divergence(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5]))",
        ),
        "allclose(cross_entropy_between(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5])), "
        "entropy(array([0.7, 0.2, 0.1])) + "
        "kl_divergence(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5])))",
    ),
    Question(
        "Perplexity from cross-entropy, in one line?",
        "PPL = exp(nats) = 2^bits. A uniform guess over K tokens has exactly K.",
        ("perplexity(2.0)", "perplexity(log(50257))"),
        "allclose(perplexity(2.0), 2 ** (2.0 / log(2)))",
    ),
    Question(
        "Why bits per byte, when there is perplexity?",
        "Perplexity is per token, and tokenizers differ in how much text a token holds. The same "
        "probability for the same text, cut into twice as many tokens, has the root of the "
        "perplexity. Bytes stay bytes.",
        (
            "perplexity(4.0)",
            "perplexity(2.0)",
            "bits_per_byte(4.0, tokens=100, n_bytes=400)",
        ),
        "allclose(bits_per_byte(4.0, tokens=100, n_bytes=400), "
        "bits_per_byte(2.0, tokens=200, n_bytes=400))",
    ),
    Question(
        "Why the logarithm of a text's probability, and not the probability?",
        "A product of hundreds of numbers below 1 underflows to 0; the sum of their "
        "logarithms does "
        "not, and has its greatest value at the same place.",
        ("prod(0.1 * ones(400))", "sum(log(0.1 * ones(400)))"),
        "prod(0.1 * ones(400)) == 0",
    ),
    Question(
        "Why -log p, and not the squared error of p?",
        "Behind a sigmoid the squared error's gradient is multiplied by p (1 - p): a model that is "
        "sure and wrong learns nothing. That of -log p is p - y, and largest there.",
        (
            "binary_cross_entropy_from_logits_grad(array([-10.0]), array([1.0]))",
            "sigmoid_grad(array([-10.0]), brier_score_grad(sigmoid(array([-10.0])), array([1.0])))",
        ),
        "abs(sigmoid_grad(array([-10.0]), brier_score_grad(sigmoid(array([-10.0])), array([1.0])))"
        "[0]) < 1e-3 < 0.99 < abs(binary_cross_entropy_from_logits_grad(array([-10.0]), "
        "array([1.0]))[0])",
    ),
    Question(
        "Why are attention's scores divided by sqrt(d_k)?",
        "A product of two vectors of d_k independent numbers of variance 1 has variance d_k. "
        "Unscaled, the softmax saturates, and no gradient passes. Dividing by d_k would "
        "flatten it.",
        (
            "std(sum(normal(2000, 64) * normal(4000, 64)[2000:], axis=-1))",
            "softmax_slope(softmax(8 * array([1.0, 0.0, -1.0])))",
            "softmax_slope(softmax(array([1.0, 0.0, -1.0])))",
        ),
        "abs(std(sum(normal(2000, 64) * normal(4000, 64)[2000:], axis=-1)) / sqrt(64) - 1) < 0.1",
    ),
    Question(
        "What is a masked score set to, and why not the share?",
        "To -inf, before the softmax: its share is exactly 0 and the others sum to one. Set to 0 "
        "afterwards, the rest sums to less; set to 0 before, it is a score like any other.",
        (
            "softmax(array([1.0, 2.0, -inf]))",
            "softmax(array([1.0, 2.0, 0.0]))",
        ),
        "softmax(array([1.0, 2.0, -inf]))[2] == 0 "
        "and allclose(sum(softmax(array([1.0, 2.0, -inf]))), 1)",
    ),
    Question(
        "Why do residual connections make deep stacks trainable?",
        "The Jacobian of x + f(x) is I + f'. A product of L small f' vanishes; a product of I + f' "
        "has the identity in it, a path on which the gradient is handed through whole.",
        (
            "chained_jacobian(0.1 * ones((30, 1, 1)))",
            "chained_jacobian(residual_jacobian(0.1 * ones((30, 1, 1))))",
        ),
        "chained_jacobian(0.1 * ones((30, 1, 1)))[0, 0] < 1e-29 "
        "and chained_jacobian(residual_jacobian(0.1 * ones((30, 1, 1))))[0, 0] > 1",
    ),
    Question(
        "LayerNorm against RMSNorm: what is the difference?",
        "LayerNorm takes out the mean and the scale of a token's features, RMSNorm the "
        "scale alone. "
        "On features whose mean is 0 they are the same. RMSNorm needs one mean instead of two, and "
        "has no bias.",
        (
            "layer_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), zeros(4), eps=0.0)",
            "rms_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), eps=0.0)",
        ),
        "allclose(rms_norm(array([-2.0, -1.0, 0.0, 3.0]), ones(4), eps=0.0), "
        "layer_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), zeros(4), eps=0.0))",
    ),
    Question(
        "Why LayerNorm and not BatchNorm in a language model?",
        "BatchNorm's mean is over tokens: what a token becomes depends on other sequences, and on "
        "tokens after it. LayerNorm's is over one token's features.",
        (
            "batch_norm(array([[1.0], [3.0]]), ones(1), zeros(1), eps=1e-5)[0]",
            "batch_norm(array([[1.0], [-3.0]]), ones(1), zeros(1), eps=1e-5)[0]",
        ),
        "batch_norm(array([[1.0], [3.0]]), ones(1), zeros(1), eps=1e-5)[0, 0] != "
        "batch_norm(array([[1.0], [-3.0]]), ones(1), zeros(1), eps=1e-5)[0, 0]",
    ),
    Question(
        "Weight decay against an L2 penalty: are they the same?",
        "In SGD, yes. In Adam, no: a penalty is part of the gradient, and is divided by the root "
        "of its average square, so weights with large gradients are hardly shrunk. AdamW shrinks "
        "the weight itself.",
        (
            f"adam_step(ones(1), 100 * ones(1), zeros(1), zeros(1), {_FIRST}, l2=0.5)[0]",
            f"adamw_step(ones(1), 100 * ones(1), zeros(1), zeros(1), {_FIRST}, "
            "weight_decay=0.5)[0]",
        ),
        f"adamw_step(ones(1), 100 * ones(1), zeros(1), zeros(1), {_FIRST}, weight_decay=0.5)[0][0] "
        f"< adam_step(ones(1), 100 * ones(1), zeros(1), zeros(1), {_FIRST}, l2=0.5)[0][0] - 0.004",
    ),
    Question(
        "Why does L1 give exact zeros, and L2 none?",
        "L1 pulls as hard on a small weight as on a large one, so small ones arrive at 0 and the "
        "proximal step holds them there. L2 pulls in proportion: the way to 0 never ends.",
        (
            "l1_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)",
            "l2_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)",
        ),
        "l1_prox(array([0.04]), strength=0.1, step=1.0)[0] == 0 "
        "< l2_prox(array([0.04]), strength=0.1, step=1.0)[0]",
    ),
    Question(
        "How wide do weights start so that 512 inputs neither swell nor fade?",
        "The variance of a sum of n_in products is n_in std^2 E[x^2], so 1 / n_in is the "
        "variance of "
        "a weight and sqrt(1 / n_in) its standard deviation. ReLU halves the mean square:"
        " 2 / n_in.",
        (
            "lecun_std(512)",
            "linear_variance(1.0, n_in=512, std=lecun_std(512))",
            "relu_mean_square(linear_variance(1.0, n_in=512, std=he_std(512)))",
        ),
        "allclose(linear_variance(1.0, n_in=512, std=lecun_std(512)), 1) "
        "and allclose(relu_mean_square(linear_variance(1.0, n_in=512, std=he_std(512))), 1)",
    ),
    Question(
        "Why are the matrices that write to the stream scaled by 1 / sqrt(2 L)?",
        "2 L sublayers add to the stream one after the other, and variances add up. Scaled, what "
        "they add together does not depend on the depth.",
        (
            "stream_variance(1.0, added=1.0, n_layers=48)",
            "stream_variance(1.0, added=depth_scale(48) ** 2, n_layers=48)",
        ),
        "allclose(stream_variance(1.0, added=depth_scale(48) ** 2, n_layers=48), 2)",
    ),
    Question(
        "What do rotary positions make of a score?",
        "A function of the distance alone: query and key are turned by angles in proportion to "
        "their positions, and a product of two turned vectors sees only the difference.",
        (
            "sum(rotate(ones((1, 2)), array([[0.7]]), pairing='half_split') "
            "* rotate(ones((1, 2)), array([[0.2]]), pairing='half_split'))",
            "sum(rotate(ones((1, 2)), array([[5.7]]), pairing='half_split') "
            "* rotate(ones((1, 2)), array([[5.2]]), pairing='half_split'))",
        ),
        "allclose(sum(rotate(ones((1, 2)), array([[0.7]]), pairing='half_split') "
        "* rotate(ones((1, 2)), array([[0.2]]), pairing='half_split')), "
        "sum(rotate(ones((1, 2)), array([[5.7]]), pairing='half_split') "
        "* rotate(ones((1, 2)), array([[5.2]]), pairing='half_split')))",
    ),
    Question(
        "Without positions, what does attention know of order?",
        "Nothing: shuffle the tokens, and what they gather is shuffled likewise.",
        (
            "simple_attention(array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))",
            "simple_attention(array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]]))",
        ),
        "allclose(simple_attention(array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]])), "
        "simple_attention(array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))[[2, 0, 1]])",
    ),
    Question(
        "What is an embedding, as a matrix product, and what is its gradient?",
        "A one-hot row times the matrix. The gradient is a scatter-add: a row gets the sum of what "
        "reached its token wherever it stood, and a token that did not occur gets zero.",
        (
            "embedding(array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), array([2, 0, 2]))",
            "embedding_grad(array([2, 0, 2]), ones((3, 2)), vocab_size=3)",
        ),
        "allclose(embedding(array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), array([2, 0, 2])), "
        "eye(3)[[2, 0, 2]] @ array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))",
    ),
    Question(
        "What does Adam's first step look like, whatever the gradient?",
        "m / (1 - beta1) = g and v / (1 - beta2) = g^2, so the step is lr times the sign of the "
        "gradient. Without the two corrections it would be lr (1 - beta1) / sqrt(1 - beta2).",
        (
            f"adamw_step(zeros(3), array([1e-3, -1.0, 1e3]), zeros(3), zeros(3), {_FIRST}, "
            "weight_decay=0.0)[0]",
        ),
        f"allclose(adamw_step(zeros(3), array([1e-3, -1.0, 1e3]), zeros(3), zeros(3), {_FIRST}, "
        "weight_decay=0.0)[0], array([-0.01, 0.01, -0.01]), rtol=1e-4)",
    ),
    Question(
        "At the start of DPO the loss is 0.693. Why?",
        "The policy is its reference, so every margin is 0, and -log sigmoid(0) = log 2.",
        ("dpo_loss(zeros(1), zeros(1), zeros(1), zeros(1), beta=0.1)",),
        "allclose(dpo_loss(zeros(1), zeros(1), zeros(1), zeros(1), beta=0.1), log(2))",
    ),
)
