"""Common questions about training transformers, with proved answers.

No result is stored here: `pellucid.maths` computes each expression when you ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.textbook.examples import Computed, compute


@dataclass(frozen=True, slots=True)
class Question:
    """A question (`text`), its `answer`, `expressions` in Python that illustrate it, and a
    `statement` that proves it: an expression that is true.
    """

    text: str
    answer: str
    expressions: tuple[str, ...]
    statement: str

    def proof(self) -> tuple[Computed, ...]:
        """The expressions and the statement, computed now."""
        return tuple(map(compute, (*self.expressions, self.statement)))


#: Adam's first step.
_FIRST = "step=1, learning_rate=0.01, beta1=0.9, beta2=0.999, eps=1e-8"

#: The questions of `pellucid quiz`, in order.
QUESTIONS: tuple[Question, ...] = (
    Question(
        "Why is the gradient of softmax and cross-entropy by the logits exactly p - y?",
        "The loss is log Z - x_target. The derivative of log Z by x_i is p_i. The derivative "
        "of x_target is 1 for the target and 0 elsewhere. Softmax's Jacobian diag(p) - p p^T, "
        "applied to -y / p, gives the same, because the two factors p cancel.",
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
        "Scores may be negative, shares may not. A constant added to every score would change the "
        "shares. And dividing by the sum hardly separates the largest score from the others.",
        (
            "sum_normalise(array([10.0, 5.0, 1.0]))",
            "softmax(array([10.0, 5.0, 1.0]))",
            "sum_normalise(array([2.0, -1.0, -0.5]))",
        ),
        "min(sum_normalise(array([2.0, -1.0, -0.5]))) < 0 < min(softmax(array([2.0, -1.0, -0.5])))",
    ),
    Question(
        "Why is KL asymmetric?",
        "KL(p || q) is a mean over samples from p, KL(q || p) over samples from q. If q has mass "
        "where p has none, the first does not notice, and the second is infinite.",
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
        "only if p = q. An estimate from samples can be negative: k1 can, k3 never.",
        (
            "kl_divergence(softmax(normal(5, 4)), softmax(normal(5, 4)[::-1]))",
            "kl_k1(array([-0.5, 0.0, 0.5]))",
            "kl_k3(array([-0.5, 0.0, 0.5]))",
        ),
        "min(kl_divergence(softmax(normal(500, 4)), softmax(normal(500, 4)[::-1]))) >= 0",
    ),
    Question(
        "What ties cross-entropy, entropy and KL together?",
        "CE = H + KL: the loss is the entropy of the data plus the price of a wrong model. H does "
        "not depend on the model, so minimising CE also minimises KL.",
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
        "PPL = exp(nats) = 2^bits. A uniform guess over K tokens has perplexity K.",
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
        "A product of hundreds of numbers below 1 underflows to 0. The sum of their logarithms "
        "does not, and it has its maximum at the same place.",
        ("prod(0.1 * ones(400))", "sum(log(0.1 * ones(400)))"),
        "prod(0.1 * ones(400)) == 0",
    ),
    Question(
        "Why -log p, and not the squared error of p?",
        "After a sigmoid the gradient of the squared error has the factor p (1 - p): a model "
        "that is sure and wrong learns nothing. For -log p it is p - y, which is largest there.",
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
        "Without the scale the softmax saturates and passes no gradient. Dividing by d_k would "
        "make it too flat.",
        (
            "std(sum(normal(2000, 64) * normal(4000, 64)[2000:], axis=-1))",
            "softmax_slope(softmax(8 * array([1.0, 0.0, -1.0])))",
            "softmax_slope(softmax(array([1.0, 0.0, -1.0])))",
        ),
        "abs(std(sum(normal(2000, 64) * normal(4000, 64)[2000:], axis=-1)) / sqrt(64) - 1) < 0.1",
    ),
    Question(
        "What is a masked score set to, and why not the share?",
        "To -inf, before the softmax: its share is exactly 0 and the others sum to one. If you set "
        "the share to 0 afterwards, the others sum to less. A score of 0 is a score like others.",
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
        "contains the identity, a path on which the gradient passes unchanged.",
        (
            "chained_jacobian(0.1 * ones((30, 1, 1)))",
            "chained_jacobian(residual_jacobian(0.1 * ones((30, 1, 1))))",
        ),
        "chained_jacobian(0.1 * ones((30, 1, 1)))[0, 0] < 1e-29 "
        "and chained_jacobian(residual_jacobian(0.1 * ones((30, 1, 1))))[0, 0] > 1",
    ),
    Question(
        "LayerNorm against RMSNorm: what is the difference?",
        "LayerNorm removes the mean and the scale of a token's features, RMSNorm only the scale. "
        "If the features have mean 0, both give the same. RMSNorm needs one mean instead of two, "
        "and has no bias.",
        (
            "layer_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), zeros(4), eps=0.0)",
            "rms_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), eps=0.0)",
        ),
        "allclose(rms_norm(array([-2.0, -1.0, 0.0, 3.0]), ones(4), eps=0.0), "
        "layer_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), zeros(4), eps=0.0))",
    ),
    Question(
        "Why LayerNorm and not BatchNorm in a language model?",
        "BatchNorm's mean is over tokens, so the output for a token depends on other sequences, "
        "and on tokens after it. LayerNorm's mean is over the features of one token.",
        (
            "batch_norm(array([[1.0], [3.0]]), ones(1), zeros(1), eps=1e-5)[0]",
            "batch_norm(array([[1.0], [-3.0]]), ones(1), zeros(1), eps=1e-5)[0]",
        ),
        "batch_norm(array([[1.0], [3.0]]), ones(1), zeros(1), eps=1e-5)[0, 0] != "
        "batch_norm(array([[1.0], [-3.0]]), ones(1), zeros(1), eps=1e-5)[0, 0]",
    ),
    Question(
        "Weight decay against an L2 penalty: are they the same?",
        "In SGD, yes. In Adam, no: a penalty is part of the gradient, which Adam divides by the "
        "root of its average square, so weights with large gradients hardly shrink. AdamW shrinks "
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
        "L1 pulls on a small weight as hard as on a large one, so small weights reach 0 and the "
        "proximal step keeps them there. L2 pulls in proportion, so a weight never reaches 0.",
        (
            "l1_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)",
            "l2_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)",
        ),
        "l1_prox(array([0.04]), strength=0.1, step=1.0)[0] == 0 "
        "< l2_prox(array([0.04]), strength=0.1, step=1.0)[0]",
    ),
    Question(
        "How wide do weights start so that 512 inputs neither swell nor fade?",
        "The variance of a sum of n_in products is n_in std^2 E[x^2]. So a weight needs the "
        "variance 1 / n_in. ReLU halves the mean square, so there it is 2 / n_in.",
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
        "2 L sublayers add to the stream, and their variances add up. With this scale the sum does "
        "not depend on the depth.",
        (
            "stream_variance(1.0, added=1.0, n_layers=48)",
            "stream_variance(1.0, added=depth_scale(48) ** 2, n_layers=48)",
        ),
        "allclose(stream_variance(1.0, added=depth_scale(48) ** 2, n_layers=48), 2)",
    ),
    Question(
        "What do rotary positions make of a score?",
        "A function of the distance alone. Query and key are rotated by angles in proportion to "
        "their positions, and the product of two rotated vectors depends only on the difference.",
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
        "Nothing: if you shuffle the tokens, the outputs are shuffled in the same way.",
        (
            "simple_attention(array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))",
            "simple_attention(array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]]))",
        ),
        "allclose(simple_attention(array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]])), "
        "simple_attention(array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))[[2, 0, 1]])",
    ),
    Question(
        "What is an embedding, as a matrix product, and what is its gradient?",
        "A one-hot row times the matrix. The gradient is a scatter-add: a row gets the sum of the "
        "gradients at all positions of its token, and a token that does not occur gets zero.",
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
